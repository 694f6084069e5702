/** A page that draws one dashboard: `show(request)` gives, for each panel, the names and values that it shows.
 *
 * A request has the `dashboard` (a file of Grafana, with its queries filled), what is `chosen` of each variable, the
 * address of a `prometheus`, the time as `from` and `to` with the `step` between points, in s, and the `theme`.
 */

import { createTheme, dateTime, makeTimeRange, ThemeContext } from '@grafana/data';
import { GlobalStyles, PortalContainer } from '@grafana/ui';
import { version } from '@grafana/ui/package.json';
import { createRoot } from 'react-dom/client';

import { Dashboard } from './dashboard';
import { framesOf } from './frames';

async function show({ dashboard, chosen, prometheus, from, to, step, theme: mode }) {
  const theme = createTheme({ colors: { mode } });
  const range = makeTimeRange(dateTime(from * 1000), dateTime(to * 1000));
  const answers = await Promise.all(dashboard.panels.map((panel) => framesOf(panel, prometheus, { from, to, step })));
  const place = document.body.appendChild(document.createElement('main'));
  await new Promise((done, failed) => {
    createRoot(place, { onUncaughtError: failed }).render(
      <ThemeContext.Provider value={theme}>
        <GlobalStyles />
        <Dashboard {...{ dashboard, chosen, answers, range, version }} onDrawn={done} />
        <PortalContainer />
      </ThemeContext.Provider>
    );
  });
  await settled(place);
  return [...place.querySelectorAll('[data-panel]')].map((each) => ({
    id: Number(each.dataset.panel),
    shown: [...each.querySelectorAll('[data-testid^="data-testid VizLegend series"], [data-shown]')].map(
      (found) => found.textContent
    ),
  }));
}

/** Wait until nothing in a place has changed for a while: icons come later, and plots are drawn after their frames. */
function settled(place, quiet_ms = 500) {
  return new Promise((done) => {
    let timer = setTimeout(done, quiet_ms);
    new MutationObserver(() => {
      clearTimeout(timer);
      timer = setTimeout(done, quiet_ms);
    }).observe(place, { attributes: true, childList: true, subtree: true });
  });
}

window.show = show;
