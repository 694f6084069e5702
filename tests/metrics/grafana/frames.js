/** The answers of Prometheus as data frames, as Grafana's data source makes them. */

import { FieldType, renderLegendFormat, toDataFrame } from '@grafana/data';

/** The frames of a panel: one for each series of each query. */
export async function framesOf(panel, prometheus, span) {
  const targets = panel.targets ?? [];
  const answers = await Promise.all(targets.map((target) => asked(target, prometheus, span)));
  return answers.flatMap((series, index) => series.map((each) => frame(targets[index], each, span)));
}

async function asked(target, prometheus, { from, to, step }) {
  const words = target.instant ? { time: to } : { start: from, end: to, step };
  const path = target.instant ? 'query' : 'query_range';
  const answer = await fetch(
    `${prometheus}/api/v1/${path}?${new URLSearchParams({ query: target.expr, ...words })}`
  ).then((found) => found.json());
  if (answer.status !== 'success') {
    throw new Error(`${target.expr}: ${answer.error}`);
  }
  return answer.data.result;
}

function frame(target, { metric, values, value }, span) {
  const points = values ? withGaps(values, span) : [value];
  return toDataFrame({
    refId: target.refId,
    fields: [
      { name: 'Time', type: FieldType.time, values: points.map(([when]) => when * 1000) },
      {
        name: 'Value',
        type: FieldType.number,
        values: points.map(([, text]) => (text === null ? null : Number(text))),
        labels: metric,
        config: { displayNameFromDS: renderLegendFormat(target.legendFormat, metric) },
      },
    ],
  });
}

/** The points of every step: where Prometheus has none there is null, which Grafana draws as a gap. */
function withGaps(values, { from, to, step }) {
  const found = new Map(values);
  const count = Math.floor((to - from) / step) + 1;
  return Array.from({ length: count }, (_, index) => from + index * step).map((when) => [when, found.get(when) ?? null]);
}
