/** Numbers, one for each series. */

import { getDisplayValueAlignmentFactors, getFieldDisplayValues, VizOrientation } from '@grafana/data';
import { BigValue, VizRepeater } from '@grafana/ui';

export const FIELDS = { color: { mode: 'thresholds' } };
const OPTIONS = { colorMode: 'value', graphMode: 'area', justifyMode: 'auto', textMode: 'auto' };

export function Plot({ panel, frames, fieldConfig, theme, width, height }) {
  const { reduceOptions, orientation = VizOrientation.Auto, ...options } = { ...OPTIONS, ...panel.options };
  const words = { data: frames, fieldConfig, reduceOptions, theme, timeZone: 'utc' };
  const values = () =>
    getFieldDisplayValues({ ...words, replaceVariables: (text) => text, sparkline: options.graphMode !== 'none' });
  return (
    <VizRepeater
      {...{ width, height, orientation }}
      source={frames}
      getValues={values}
      getAlignmentFactors={getDisplayValueAlignmentFactors}
      renderCounter={0}
      autoGrid
      renderValue={({ value, alignmentFactors, count, width, height }) => (
        <div data-shown>
          <BigValue
            {...{ ...options, alignmentFactors, count, theme, width, height }}
            value={value.display}
            sparkline={value.sparkline}
          />
        </div>
      )}
    />
  );
}
