/** A heading over panels. */

import { Icon, Text } from '@grafana/ui';

export function Heading({ panel }) {
  return (
    <div data-shown style={{ alignItems: 'center', display: 'flex', gap: 8, height: '100%' }}>
      <Icon name="angle-down" />
      <Text variant="h6">{panel.title}</Text>
    </div>
  );
}
