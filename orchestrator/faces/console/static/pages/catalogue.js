/** Which tools there are, what knowing them costs, and how they are found. */
import {get} from '../lib/api.js';
import {html, useMemo, useState} from '../lib/dom.js';
import {count, ms, percent, plural, tokens} from '../lib/format.js';
import {useLoaded} from '../lib/load.js';
import {useLive} from '../lib/live.js';
import {Link, setQuery, useRoute} from '../lib/router.js';
import {STATES} from '../components/servers.js';
import {Badge, Empty, Loading, Page, Panel, Problem, Said, Typed} from '../components/ui.js';
import {Bar, Compared} from './bars.js';
import {atMost} from './figures_of.js';
import {toolPath} from './links.js';

const byTool = (stats) => new Map((stats?.tools ?? []).map((row) => [`${row.server}/${row.tool}`, row]));

export default function Catalogue() {
  const {query} = useRoute();
  const catalogue = useLoaded(
    async () => {
      const [costs, listing, stats] = await Promise.all([
        get('/tools/costs'),
        get('/tools', {detail: 'description'}),
        get('/stats'),
      ]);
      return {costs, listing, used: byTool(stats)};
    },
    [],
  );
  const searched = query.get('q') ?? '';
  return html`
    <${Page} title="Catalogue" lead="The servers and tools that you may use, and what it costs an agent to know them.">
      ${catalogue.error && html`<${Problem} error=${catalogue.error} retry=${catalogue.reload} />`}
      ${!catalogue.value && !catalogue.error && html`<${Loading} label="Loading the catalogue" />`}
      ${catalogue.value && html`<${Shown} ...${catalogue.value} searched=${searched} open=${query.get('server')} />`}
    <//>
  `;
}

function Shown({costs, listing, used, searched, open}) {
  if (!costs.servers.length) {
    return html`<${Empty} title="There are no servers yet.">
      <p>Add an MCP server with <code>code-executor servers add</code>, or start those that come with the executor with <code>make up</code>. Their tools appear here.</p>
    <//>`;
  }
  return html`
    <${Costs} costs=${costs} />
    <${SearchField} searched=${searched} />
    ${searched
      ? html`<${Found} searched=${searched} used=${used} />`
      : html`<${Servers} costs=${costs} listing=${listing} used=${used} open=${open} />`}
  `;
}

/** What a client pays before its first call: here, and with every definition loaded. */
function Costs({costs}) {
  const {full} = costs.total;
  const most = Math.max(full, costs.here);
  return html`
    <${Panel} title="What a client carries in its context">
      <dl class="compared">
        <${Compared} name="Every definition loaded" part=${full} whole=${most} figure=${`${count(full)} tokens`} />
        <${Compared} name="The executor’s own tools" part=${costs.here} whole=${most} figure=${`${count(costs.here)} tokens`} tone="ok" />
      </dl>
      <p class="note">
        ${full > costs.here
          ? `${percent(full - costs.here, full)} less. `
          : 'With so few tools, the executor costs more than it saves here. '}Agents read names (${tokens(costs.total.name)}), summaries (${tokens(costs.total.description)}) and
        definitions only as they need them. Tokens are counted with o200k.
      </p>
    <//>
  `;
}

function SearchField({searched}) {
  return html`<div class="catalogue-search" role="search">
    <${Typed} label="Search the way agents do" type="search" value=${searched} onValue=${(q) => setQuery({q})} placeholder="read a text file" maxlength="1000" />
  </div>`;
}

function Found({searched, used}) {
  const found = useLoaded(() => get('/tools/search', {q: searched, detail: 'description', limit: 20, scores: true}), [searched]);
  if (found.error) return html`<${Problem} error=${found.error} retry=${found.reload} />`;
  if (!found.value) return html`<${Loading} label="Searching" />`;
  const {tools, metrics} = found.value;
  if (!tools.length) {
    return html`<${Empty} title="No tool matches.">
      <p>Say what the tool should do in other words, or <button type="button" class="as-link" onClick=${() => setQuery({q: ''})}>look at all servers</button>.</p>
    <//>`;
  }
  const best = Math.max(...tools.map((tool) => tool.score ?? 0));
  return html`
    <${Panel} title=${plural(tools.length, 'tool found', 'tools found')}>
      <ol class="found">
        ${tools.map(
          (tool) => html`<li key=${`${tool.server}/${tool.name}`}>
            <div class="found-head">
              <${ToolLink} server=${tool.server} tool=${tool.name} />
              <span class="found-server"><${Said}>${tool.server}<//></span>
              ${tool.score !== undefined &&
              html`<span class="found-score"><${Bar} part=${tool.score} whole=${best} tone="accent" /><span class="amount"><span class="hidden-text">score </span>${tool.score.toFixed(2)}</span></span>`}
            </div>
            <p><${Said}>${tool.description}<//></p>
            <${Usage} row=${used.get(`${tool.server}/${tool.name}`)} />
          </li>`,
        )}
      </ol>
      ${metrics && html`<p class="note">This answer costs an agent ${count(metrics.tokens)} tokens, every definition ${count(metrics.fullTokens)}.</p>`}
    <//>
  `;
}

function Servers({costs, listing, used, open}) {
  const most = Math.max(...costs.servers.map((server) => server.tokens.full), 1);
  const {servers: now} = useLive();
  return html`
    <${Panel} title=${`${plural(costs.servers.length, 'server')}, ${plural(costs.servers.reduce((sum, each) => sum + each.tools, 0), 'tool')}`}>
      <p class="note bar-legend">
        <span><span class="swatch is-full" aria-hidden="true"></span>all its definitions, loaded by a client</span>
        <span><span class="swatch is-inner" aria-hidden="true"></span>its names, when an agent lists it here</span>
      </p>
      <ul class="catalogue-servers">
        ${costs.servers.map(
          (server) => html`<${Server} key=${server.server} ...${server} ...${now.get(server.server)} most=${most} listed=${listing.tools[server.server]} used=${used} open=${open === server.server} />`,
        )}
      </ul>
    <//>
  `;
}

function Server({server, state, tools, problem, tokens: cost, most, listed, used, open}) {
  const [shown, setShown] = useState(open);
  const {tone, mark} = STATES[state] ?? {tone: 'muted', mark: '·'};
  const names = useMemo(() => Object.entries(listed ?? {}), [listed]);
  const toggle = (event) => {
    setShown(event.currentTarget.open);
    if (event.currentTarget.open) setQuery({server});
    else if (open) setQuery({server: ''});
  };
  return html`<li>
    <details open=${open} onToggle=${toggle}>
      <summary>
        <span class="server-name"><${Said}>${server}<//></span>
        <span class="server-state"><${Badge} tone=${tone} mark=${mark}>${state}<//></span>
        <span class="server-tools">${plural(tools, 'tool')}</span>
        <span class="server-bar"><${Bar} part=${cost.full} whole=${most} inner=${cost.name} /></span>
        <span class="server-cost amount">${tokens(cost.full)} tokens</span>
      </summary>
      ${shown && html`<${ServerTools} server=${server} cost=${cost} names=${names} used=${used} />`}
    </details>
    ${problem && html`<p class="catalogue-problem"><${Said}>${problem}<//></p>`}
  </li>`;
}

function ServerTools({server, cost, names, used}) {
  return html`<div class="server-inside">
    <dl class="levels">
      <div><dt>Tokens: names</dt><dd>${count(cost.name)}</dd></div>
      <div><dt>with summaries</dt><dd>${count(cost.description)}</dd></div>
      <div><dt>whole definitions</dt><dd>${count(cost.full)}</dd></div>
    </dl>
    ${names.length === 0
      ? html`<p class="note">It has no tools that you may use.</p>`
      : html`<ul class="tools">
          ${names.map(
            ([tool, summary]) => html`<li key=${tool}>
              <${ToolLink} server=${server} tool=${tool} />
              <p><${Said}>${summary}<//></p>
              <${Usage} row=${used.get(`${server}/${tool}`)} />
            </li>`,
          )}
        </ul>`}
  </div>`;
}

function ToolLink({server, tool}) {
  return html`<${Link} class="tool-name" href=${toolPath(server, tool)}><${Said} mono>${tool}<//><//>`;
}

/** What became of its calls in the last 24 hours; nothing when there were none. */
function Usage({row}) {
  if (!row) return null;
  return html`<p class="usage">
    <span>${plural(row.calls, 'call')} in the last 24 hours</span>
    ${row.errors > 0 && html`<span class="is-bad">${plural(row.errors, 'error')}</span>`}
    ${row.p50Ms !== null && html`<span>median ${ms(row.p50Ms)}</span><span title=${atMost(95)}>p95 ${ms(row.p95Ms)}</span>`}
  </p>`;
}
