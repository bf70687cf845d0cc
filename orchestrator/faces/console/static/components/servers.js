/** The MCP servers, those with a problem first, with what is wrong. */
import {html, useState} from '../lib/dom.js';
import {plural, visible} from '../lib/format.js';
import {Link} from '../lib/router.js';
import {Badge} from './ui.js';

export const STATES = {
  down: {order: 0, tone: 'bad', mark: '✕'},
  connecting: {order: 1, tone: 'info', mark: '○'},
  connected: {order: 2, tone: 'ok', mark: '✓'},
};
const FIRST = 8;

/** @param {{servers: {server: string, state: string, tools: number, problem: string | null}[]}} props */
export function Servers({servers}) {
  const [all, setAll] = useState(false);
  const order = ({state}) => STATES[state]?.order ?? 1;
  const sorted = [...servers].sort((one, other) => order(one) - order(other) || one.server.localeCompare(other.server));
  const shown = all ? sorted : sorted.slice(0, FIRST);
  if (!servers.length) return html`<p class="muted">No server is configured for your role. <code>code-executor servers add</code> adds one.</p>`;
  return html`
    <ul class="upstreams">
      ${shown.map((server) => html`<${Server} key=${server.server} ...${server} />`)}
    </ul>
    ${shown.length < sorted.length && html`<button type="button" onClick=${() => setAll(true)}>Show all ${sorted.length} servers</button>`}
  `;
}

function Server({server, state, tools, problem}) {
  const {tone, mark} = STATES[state] ?? STATES.connecting;
  return html`<li>
    <div class="upstream-line">
      <${Link} href=${`/console/catalogue?server=${encodeURIComponent(server)}`}><bdi>${visible(server)}</bdi><//>
      <${Badge} tone=${tone} mark=${mark}>${state}<//>
      <span class="muted nowrap">${plural(tools, 'tool')}</span>
    </div>
    ${problem && html`<p class="upstream-problem"><bdi>${visible(problem)}</bdi></p>`}
  </li>`;
}
