/** Lines over time. */

import { TimeSeries } from '@grafana/ui';

/** The configuration of fields that Grafana's panel has where a dashboard says nothing. */
export const FIELDS = {
  color: { mode: 'palette-classic' },
  custom: {
    axisBorderShow: false,
    axisCenteredZero: false,
    axisColorMode: 'text',
    axisGridShow: true,
    axisLabel: '',
    axisPlacement: 'auto',
    barAlignment: 0,
    drawStyle: 'line',
    fillOpacity: 0,
    gradientMode: 'none',
    hideFrom: { legend: false, tooltip: false, viz: false },
    insertNulls: false,
    lineInterpolation: 'linear',
    lineWidth: 1,
    pointSize: 5,
    scaleDistribution: { type: 'linear' },
    showPoints: 'auto',
    spanNulls: false,
    stacking: { group: 'A', mode: 'none' },
    thresholdsStyle: { mode: 'off' },
  },
};
const LEGEND = { calcs: [], displayMode: 'list', placement: 'bottom', showLegend: true };

export function Plot({ panel, frames, range, width, height }) {
  const legend = { ...LEGEND, ...panel.options.legend };
  return <TimeSeries {...{ frames, legend, width, height }} timeRange={range} timeZone="utc" options={panel.options} />;
}
