/** Executions as a table, newest first. */
import {useNow} from '../lib/clock.js';
import {html} from '../lib/dom.js';
import {isUnderWay} from '../lib/filters.js';
import {bytes, count, fullTime, language, ms, plural, shortId, time, visible} from '../lib/format.js';
import {Link, navigate} from '../lib/router.js';
import {executionPath} from '../pages/links.js';
import {Outcome} from './ui.js';

/** @param {{rows: any[], calls: Map<string, Map<number, any>>, fresh: Set<string>}} props `fresh`: ids that came just now */
export function ExecutionTable({rows, calls, fresh}) {
  return html`<div class="table-scroll">
    <table class="executions">
      <caption class="hidden-text">Executions, newest first</caption>
      <thead>
        <tr>
          <th scope="col">Outcome</th>
          <th scope="col">Execution</th>
          <th scope="col" class="wide-only">Caller</th>
          <th scope="col" class="wide-only">Language</th>
          <th scope="col" class="number wide-only">Tool calls</th>
          <th scope="col" class="number took">Time</th>
          <th scope="col" class="number wide-only">Output</th>
          <th scope="col" class="number wide-only">Accepted</th>
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          (execution) => html`<${Row}
            key=${execution.executionId}
            execution=${execution}
            calls=${calls.get(execution.executionId)}
            fresh=${fresh.has(execution.executionId)}
          />`,
        )}
      </tbody>
    </table>
  </div>`;
}

function Row({execution, calls, fresh}) {
  const {executionId: id, caller, kind, acceptedAt, outputBytes, stderrBytes, truncated} = execution;
  const toolCalls = Math.max(execution.toolCallCount ?? 0, calls?.size ?? 0);
  const tools = execution.tools?.length ? execution.tools : calledBy(calls);
  const what = kind === 'call' ? 'single call' : language(execution.language);
  const did = [execution.fileCount ? plural(execution.fileCount, 'file') : '', shortTools(tools, toolCalls)].filter(Boolean).join(' · ');
  // What has a title lies above the link that covers the row, and opens it, too.
  const open = (event) => event.target.closest('a') || navigate(executionPath(id));
  return html`<tr class=${fresh ? 'is-fresh' : ''} onClick=${open}>
    <td><${Outcome} execution=${execution} /></td>
    <td class="id">
      <${Link} class="mono" href=${executionPath(id)} aria-label=${`Execution ${shortId(id)}`} title=${id}>${shortId(id)}<//>
      ${did && html`<span class="did muted wide-only" title=${visible(tools.join(', '))}><bdi>${did}</bdi></span>`}
      <div class="narrow-only muted">
        <bdi>${caller}</bdi>
        <span>${[what, did || (toolCalls ? plural(toolCalls, 'call') : '')].filter(Boolean).join(' · ')}</span>
      </div>
    </td>
    <td class="by wide-only" title=${visible(caller)}><bdi>${caller}</bdi></td>
    <td class="wide-only">${what}</td>
    <td class="number wide-only">${toolCalls ? count(toolCalls) : html`<span class="muted">0</span>`}</td>
    <td class="number took"><${Took} execution=${execution} /><div class="narrow-only muted">${time(acceptedAt)}</div></td>
    <td class="number wide-only" title=${truncated ? 'More was printed than is kept' : undefined}>
      ${bytes(outputBytes + stderrBytes)}${truncated ? '+' : ''}
    </td>
    <td class="number muted wide-only"><time datetime=${acceptedAt} title=${fullTime(acceptedAt)}>${time(acceptedAt)}</time></td>
  </tr>`;
}

const MOST_TOOLS = 4; // which is also what the daemon tells

/** @param {Map<number, any> | undefined} calls of one that runs */
function calledBy(calls) {
  const tools = new Set();
  for (const {server, tool} of calls?.values() ?? []) if (tools.add(`${server}/${tool}`).size === MOST_TOOLS) break;
  return [...tools];
}

/** "find, send", and "+3" for calls beyond those that the daemon names. @param {string[]} tools @param {number} toolCalls */
function shortTools(tools, toolCalls) {
  const names = tools.map((name) => visible(name.slice(name.indexOf('/') + 1))).join(', ');
  return tools.length === MOST_TOOLS && toolCalls > MOST_TOOLS ? `${names} +${count(toolCalls - MOST_TOOLS)}` : names;
}

/** How long it took, or has taken so far. */
export function Took({execution}) {
  if (isUnderWay(execution)) return html`<${Elapsed} since=${execution.acceptedAt} />`;
  return html`${ms(execution.executionTime)}`;
}

/** A clock that runs. */
export function Elapsed({since}) {
  const now = useNow(200);
  const tenths = Math.max(0, Math.floor((now - Date.parse(since)) / 100)) * 100;
  return html`<span class="elapsed">${tenths < 60_000 ? `${(tenths / 1000).toFixed(1)} s` : ms(tenths)}</span>`;
}
