/* Keys: who may open which door.

   A key is shown once, when it is made, and never again: the store holds only a digest. So the
   dialog that shows it stays until it is closed by hand, and offers to copy it. Rotating leaves the
   old key working for a while, so that whoever uses it can change over; revoking ends it at once. */

import { all, path, post, remove } from "./api.js";
import { Columns, Confirm, Dialog, Empty, Listed, Shape, When, html, plural, useLoaded, useState } from "./ui.js";

const ROLES = [["operator", "sees and changes everything"], ["viewer", "sees everything, changes nothing"],
  ["tenant", "sees and mends its own"], ["sender", "sends events of its tenant"],
  ["schemas", "registers schemas: of its tenant, or without one all"]];
const LIVES = [["", "never"], ["86400", "in a day"], ["2592000", "in 30 days"], ["31536000", "in a year"]];
const OVERLAPS = [["0", "at once"], ["3600", "in an hour"], ["86400", "in a day"], ["604800", "in a week"]];

function stateOf(key) {
  const now = Date.now() / 1000;
  if (key.revoked_at_s !== null && key.revoked_at_s <= now) return ["removed", "revoked"];
  if (key.expires_at_s && key.expires_at_s <= now) return ["removed", "expired"];
  return ["active", "works"];
}

function Shown({ made, onClose }) {
  const [copied, setCopied] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(made.key);
      setCopied("Copied.");
    } catch {
      setCopied("The browser does not allow it: select and copy it by hand.");
    }
  };
  return html`<${Dialog} title="The new key" onClose=${onClose}>
    <p><b>This is the only time it is shown.</b> Put it where it is used, now.</p>
    <label class="field">Key <input class="mono" readonly value=${made.key}
        onFocus=${(event) => event.target.select()} /></label>
    <p role="status">${copied}</p>
    <div class="dialog-foot"><button class="button is-main" autofocus onClick=${copy}>Copy</button>
      <button class="button" onClick=${onClose}>I have it</button></div><//>`;
}

function Create({ show, onClose }) {
  const [role, setRole] = useState("sender");
  const bound = role === "tenant" || role === "sender", may = role === "schemas";
  const act = async (form) => {
    const lives = form.get("lives");
    show(await post("/v1/keys", {
      role, tenant: bound || may ? form.get("tenant").trim() || null : null, label: form.get("label").trim(),
      ...(may && form.get("subjects").trim() ? { subjects: form.get("subjects").trim() } : {}),
      expires_in_s: lives ? Number(lives) : null,
    }));
  };
  return html`<${Confirm} title="New key" verb="Create" act=${act} onClose=${onClose}>
    <fieldset class="roles"><legend>Role</legend>${ROLES.map(([name, may]) => html`<label key=${name}>
        <input type="radio" name="role"
      value=${name} checked=${role === name} onChange=${() => setRole(name)} /><span><b>${name}</b> ${may}</span>
          </label>`)}</fieldset>
    ${(bound || may) && html`<label class="field">Tenant <input name="tenant" required=${bound}
        autocomplete="off" /></label>`}
    ${may && html`<label class="field">Subjects <input name="subjects" autocomplete="off" />
        <small>The only ones that it sees, such as acme.*; empty: all that it may.</small></label>`}
    <label class="field">Label <input name="label" required autocomplete="off" />
        <small>Who or what uses it, for the list.</small></label>
    <label class="field">Expires <select name="lives">${LIVES.map(([value, said]) => html`<option key=${value}
        value=${value}>${said}</option>`)}</select></label><//>`;
}

const does = (key) => `${key.role}${key.subjects ? ` (${key.subjects})` : ""}`;
const whose = (key) => `${key.label || "no label"}, ${does(key)}${key.tenant ? ` of ${key.tenant}` : ""}`;
const named = (key) => html`<b class="mono">hr_${key.prefix}_…</b> (${whose(key)})`;

function Rotate({ of, show, onClose }) {
  const act = async (form) => show(
    await post(path("keys", of.prefix, "rotate"), { overlap_s: Number(form.get("overlap")) }),
  );
  return html`<${Confirm} title="Rotate this key?" verb="Rotate" act=${act} onClose=${onClose}>
    <p>A new key takes the place of ${named(of)}, with the same role. It is shown once.</p>
    <label class="field">The old one ends <select name="overlap">
        ${OVERLAPS.map(([value, said]) => html`<option key=${value}
      value=${value} selected=${value === "86400"}>${said}</option>`)}</select></label><//>`;
}

function Revoke({ of, done, onClose }) {
  const act = async () => {
    await remove(path("keys", of.prefix));
    done();
  };
  return html`<${Confirm} title="Revoke this key?" verb="Revoke" danger act=${act} onClose=${onClose}>
    <p>${named(of)} opens nothing any more, within seconds.
      Whoever uses it is refused; sessions that began with it end.</p>
    <ul><li>This cannot be taken back: make a new key instead.</li></ul><//>`;
}

const COLUMNS = [["key"], ["label"], ["role"], ["tenant"], ["made"], ["expires"], ["state"], ["actions", "unseen"]];

export function Keys({ me }) {
  const loaded = useLoaded(() => all("/v1/keys"), [], 15);
  const [asked, setAsked] = useState(null);
  const close = () => { setAsked(null); loaded.again(); };
  // the dialog that asked closes itself after this; the key is to stay in sight
  const show = (made) => { setTimeout(() => setAsked({ what: "shown", made })); };
  const row = (key) => {
    const [shape, said] = stateOf(key);
    const own = me.name === `key:${key.prefix}`;
    return html`<tr key=${key.prefix} class=${shape === "removed" ? "is-over" : ""}>
        <td class="mono">hr_${key.prefix}_…</td>
      <td>${key.label}${own && html` <span class="tag">yours</span>`}</td><td>${does(key)}</td><td>
          ${key.tenant || html`<span class="pale">–</span>`}</td>
      <td><${When} at=${key.created_at_s} /></td><td><${When} at=${key.expires_at_s} /></td>
      <td><span class=${`state is-${shape}`}><${Shape} of=${shape} />${said}</span></td>
      <td class="row-end">${shape === "active" && html`<button class="button is-small"
          aria-label=${`Rotate ${key.prefix}`}
        onClick=${() => setAsked({ what: "rotate", key })}>Rotate…</button>
            <button class="button is-small" aria-label=${`Revoke ${key.prefix}`}
        onClick=${() => setAsked({ what: "revoke", key })}>Revoke…</button>`}</td></tr>`;
  };
  return html`<div class="head"><h1 tabindex="-1">Keys</h1>${loaded.data && html`<span class="pale">
      ${plural(loaded.data.filter((each) =>
      stateOf(each)[0] === "active").length, "key")} work</span>`}<div class="card-end"><button class="button is-main"
      onClick=${() => setAsked({ what: "create" })}>New key…</button></div></div>
    <${Listed} loaded=${loaded} what="keys" empty=${html`<${Empty} title="No keys">
        <p>Make one for each sender and each person.</p><//>`}>
      <div class="card scroll" role="region" tabindex="0" aria-label="Keys"><table class="plain wide">
          <${Columns} of=${COLUMNS} /><tbody>${(loaded.data || []).map(row)}</tbody></table></div><//>
    ${asked && asked.what === "create" && html`<${Create} show=${show} onClose=${close} />`}
    ${asked && asked.what === "rotate" && html`<${Rotate} of=${asked.key} show=${show} onClose=${close} />`}
    ${asked && asked.what === "revoke" && html`<${Revoke} of=${asked.key} done=${loaded.again} onClose=${close} />`}
    ${asked && asked.what === "shown" && html`<${Shown} made=${asked.made} onClose=${close} />`}`;
}
