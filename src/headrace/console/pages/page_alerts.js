/* Alerts: what needs a person, the worst first, and what that person can do.

   An alert that only says what is wrong is read at night by somebody who then has to think. So each
   kind has its next step written down, with a link to where it is done. */

import { live } from "./live.js";
import { Empty, Loading, Severity, When, html, plural, useLive } from "./ui.js";

const STEPS = {
  stalled: ["Stalled",
    "It has records to read, may run, and nothing moves. See which slots it waits for and its last error."],
  "lag-growing": ["Lag is growing",
    "More comes in than is done. Raise its weight or throttle, add executors, or mend what slows the use case."],
  quarantined: ["Quarantined", "Look at the record, then retry it or skip it. Its lane waits until then."],
  "topic-trouble": ["Something is wrong with a topic",
    "It is read all the same. See that it is as it should be where it is: some records may go nowhere."],
  "driver-lost": ["Driver lost",
    "Another one takes over when its lease ends. See that its process is started again."],
};
const ORDER = { critical: 0, warning: 1 };

const about = (each) => (each.tenant ? `${each.tenant}${each.use_case ? `/${each.use_case}` : ""}` : each.driver);

function Row({ of }) {
  const [where, said] = of.tenant ? [`#/tenants/${encodeURIComponent(of.tenant)}`, "Open tenant"]
    : ["#/waves", "See slots"];
  return html`<li class="alert"><${Severity} of=${of.severity} /><span class="alert-name">${about(of)}</span>
    <span class="alert-text">${of.text}</span><span class="pale alert-when"><${When} at=${of.since_s} /></span>
    <a class="button is-small" href=${where} aria-label=${`${said} ${about(of)}`}>${said}</a></li>`;
}

/** [kind, alerts], the kind with the worst first; in each the worst and oldest first. */
function grouped(found) {
  const kinds = new Map();
  const worse = (a, b) => (ORDER[a.severity] ?? 2) - (ORDER[b.severity] ?? 2) || a.since_s - b.since_s;
  for (const each of [...found].sort(worse)) kinds.set(each.kind, [...(kinds.get(each.kind) || []), each]);
  return [...kinds.entries()];
}

export function Alerts() {
  useLive("alerts");
  const found = live.alerts;
  const critical = found ? found.filter((each) => each.severity === "critical").length : 0;
  return html`<div class="head"><h1 tabindex="-1">Alerts</h1>${found && found.length > 0 && html`<span class="pale">${
      plural(critical, "critical", "critical")}, ${plural(found.length - critical, "warning")}</span>`}</div>
    ${!found ? html`<${Loading} what="alerts" />` : !found.length
      ? html`<${Empty}
          title="Nothing to do"><p>No stream stalls, no lag grows, no record waits for you, every driver is there.</p>
          <//>`
      : grouped(found).map(([kind, alerts]) => {
        const [title, step] = STEPS[kind] || [kind, ""];
        return html`<section key=${kind} class=${`card alert-group is-${alerts[0].severity}-edge`}
            aria-label=${title}>
          <header><h2>${title}</h2><p>${step}</p><span class="pale num">${alerts.length}</span></header>
          <ul class="alert-rows">${alerts.map((each) => html`<${Row}
              key=${`${each.tenant} ${each.use_case} ${each.driver}`} of=${each} />`)}</ul></section>`;
      })}`;
}
