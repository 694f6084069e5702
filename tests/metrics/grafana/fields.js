/** The fields of a panel with the configuration of its file, over what its type has where the file says nothing. */

import {
  applyFieldOverrides,
  identityOverrideProcessor,
  Registry,
  thresholdsOverrideProcessor,
} from '@grafana/data';

const STANDARD = ['unit', 'min', 'max', 'decimals', 'displayName', 'noValue', 'color', 'thresholds', 'mappings'];
const THRESHOLDS = {
  mode: 'absolute',
  steps: [
    { value: -Infinity, color: 'green' },
    { value: 80, color: 'red' },
  ],
};

/** The frames with display processors, and the configuration that they have. `own` is that of the panel's type. */
export function configured(panel, own, frames, theme) {
  const known = [
    ...STANDARD.map((id) => property(id, id, false)),
    ...Object.keys(own.custom ?? {}).map((name) => property(`custom.${name}`, name, true)),
  ];
  const { defaults, overrides } = panel.fieldConfig;
  refuseUnknown(panel, known, defaults, overrides);
  const fieldConfig = {
    defaults: { thresholds: THRESHOLDS, ...own, ...defaults, custom: { ...own.custom, ...defaults.custom } },
    overrides,
  };
  const words = { replaceVariables: (text) => text, theme, timeZone: 'utc' };
  const registry = new Registry(() => known);
  return {
    fieldConfig,
    frames: applyFieldOverrides({ data: frames, fieldConfig, fieldConfigRegistry: registry, ...words }),
  };
}

function property(id, path, isCustom) {
  const process = id === 'thresholds' ? thresholdsOverrideProcessor : identityOverrideProcessor;
  return { id, path, isCustom, name: id, process, shouldApply: () => true };
}

/** A property that would be left out in silence is an error. */
function refuseUnknown(panel, known, { custom = {}, ...defaults }, overrides) {
  const asked = [
    ...Object.keys(defaults),
    ...Object.keys(custom).map((name) => `custom.${name}`),
    ...overrides.flatMap(({ properties }) => properties.map(({ id }) => id)),
  ];
  const ids = new Set(known.map(({ id }) => id));
  const unknown = asked.filter((id) => !ids.has(id));
  if (unknown.length) {
    throw new Error(`${panel.title}: this page knows no field property ${unknown}`);
  }
}
