/** A dashboard in Grafana's grid: the choices above it, and each panel at its place. */

import { InlineField, Input, PanelChrome, Text, useTheme2 } from '@grafana/ui';
import { useEffect } from 'react';

import { configured } from './fields';
import * as row from './kinds/row';
import * as stat from './kinds/stat';
import * as timeseries from './kinds/timeseries';

/** The panel types that this page can draw. */
const KINDS = { row, stat, timeseries };
const COLUMNS = 24;
const LINE = 30;
const GAP = 8;
const MARGIN = 16;
const TOP = 104;
const FOOT = 40;

export function Dashboard({ dashboard, chosen, answers, range, version, onDrawn }) {
  const theme = useTheme2();
  const lines = Math.max(...dashboard.panels.map(({ gridPos: { y, h } }) => y + h));
  const width = window.innerWidth - 2 * MARGIN;
  const column = (width + GAP) / COLUMNS;
  useEffect(() => onDrawn(), []);
  return (
    <div
      style={{
        background: theme.colors.background.canvas,
        height: TOP + lines * (LINE + GAP) + FOOT,
        position: 'relative',
      }}
    >
      <div style={{ padding: `${MARGIN}px ${MARGIN}px 0` }}>
        <Text element="h1" variant="h3">
          {dashboard.title}
        </Text>
        <Choices variables={dashboard.templating.list} chosen={chosen} />
      </div>
      {dashboard.panels.map((panel, index) => {
        const { x, y, w, h } = panel.gridPos;
        const place = { left: MARGIN + x * column, top: TOP + y * (LINE + GAP), position: 'absolute' };
        const size = { width: w * column - GAP, height: h * LINE + (h - 1) * GAP };
        return (
          <div key={panel.id} data-panel={panel.id} style={{ ...place, ...size }}>
            <Panel panel={panel} frames={answers[index]} range={range} size={size} />
          </div>
        );
      })}
      <div style={{ bottom: 12, left: MARGIN, position: 'absolute' }}>
        <Text variant="bodySmall" color="secondary">
          {`Drawn by Grafana's own panel components (@grafana/ui ${version}) from the dashboard file and the answers of ` +
            'a Prometheus. Grafana’s server was not there: make pictures'}
        </Text>
      </div>
    </div>
  );
}

function Choices({ variables, chosen }) {
  return (
    <div style={{ display: 'flex', gap: GAP, marginTop: GAP }}>
      {variables.map(({ name, label, current }) => (
        <InlineField key={name} label={label}>
          <Input readOnly width={16} value={chosen[name] ?? current.text} />
        </InlineField>
      ))}
    </div>
  );
}

function Panel({ panel, frames, range, size }) {
  const theme = useTheme2();
  const kind = KINDS[panel.type];
  if (!kind || panel.transformations?.length) {
    throw new Error(`${panel.title}: no panel of type ${panel.type}, or one with transformations, can be drawn`);
  }
  if (!kind.Plot) {
    return <kind.Heading panel={panel} />;
  }
  const fields = configured(panel, kind.FIELDS, frames, theme);
  return (
    <PanelChrome title={panel.title} description={panel.description} {...size}>
      {(width, height) =>
        hasNumbers(frames) ? (
          <kind.Plot panel={panel} {...fields} range={range} theme={theme} width={width} height={height} />
        ) : (
          <Text>No data</Text>
        )
      }
    </PanelChrome>
  );
}

function hasNumbers(frames) {
  return frames.some(({ fields }) => fields.some(({ name, values }) => name === 'Value' && values.some(Number.isFinite)));
}
