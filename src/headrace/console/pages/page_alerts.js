/* Alerts: what needs a person, the worst first, and what that person can do.

   An alert that only says what is wrong is read at night by somebody who then has to think. So each
   kind has its next step written down, with a link to where it is done. */

import { live } from "./live.js";
import { Empty, Loading, Severity, When, html, plural, useLive } from "./ui.js";

const STEPS = {
  stalled: ["Stalled", "It has records to read, may run, and nothing moves. See which slots it waits for and its last error."],
  "lag-growing": ["Lag is growing", "More comes in than is done. Raise its weight or its throttle, add executors, or mend what slows the use case."],
  quarantined: ["Stopped at a record", "Look at the record, then retry it or skip it. Its lane waits until then."],
  "driver-lost": ["A driver is silent", "Another one takes over when its lease ends. See that its process is started again."],
};
const ORDER = { critical: 0, warning: 1 };

function Where({ of }) {
  if (of.tenant) return html`<a class="button" href=${`#/tenants/${encodeURIComponent(of.tenant)}`}>Open ${of.tenant}</a>`;
  return html`<a class="button" href="#/waves">See the slots</a>`;
}

const about = (each) => (each.tenant ? `${each.tenant}${each.use_case ? `/${each.use_case}` : ""}` : each.driver);

export function Alerts() {
  useLive("alerts");
  const found = live.alerts;
  const shown = found && [...found].sort((a, b) => (ORDER[a.severity] ?? 2) - (ORDER[b.severity] ?? 2) || a.since_s - b.since_s);
  const critical = found ? found.filter((each) => each.severity === "critical").length : 0;
  return html`<div class="head"><h1 tabindex="-1">Alerts</h1>${found && found.length > 0 && html`<span class="pale">${
      plural(critical, "critical", "critical")}, ${plural(found.length - critical, "warning")}</span>`}</div>
    ${!found ? html`<${Loading} what="alerts" />` : !found.length
      ? html`<${Empty} title="Nothing to do"><p>No stream stalls, no lag grows, no record waits for you, every driver is there.</p><//>`
      : html`<ul class="alerts">${shown.map((each) => {
        const [title, step] = STEPS[each.kind] || [each.kind, ""];
        return html`<li key=${`${each.kind} ${each.tenant} ${each.use_case} ${each.driver}`} class=${`alert is-${each.severity}-edge`}>
          <${Severity} of=${each.severity} /><div class="alert-text"><h2>${title}: <span class="name">${about(each)}</span></h2>
          <p>${each.text}</p><p class="pale">${step}</p></div><span class="pale alert-when">since <${When} at=${each.since_s} /></span>
          <${Where} of=${each} /></li>`;
      })}</ul>`}`;
}
