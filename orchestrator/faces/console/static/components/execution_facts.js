/** What is known of an execution beside what it printed: facts, limits, mistakes, denials, workspace. */
import {html} from '../lib/dom.js';
import {bytes, count, fileName, fullTime, language, ms, percent, plural, time, visible, words} from '../lib/format.js';
import {isUnderWay} from '../lib/filters.js';
import {Link} from '../lib/router.js';
import {shortVersion, skillOf} from '../lib/skills.js';
import {skillPath} from '../pages/links.js';
import {Took} from './executions.js';
import {KeyValue, Meter, Panel, Said} from './ui.js';

/** @param {{execution: any}} props */
export function Facts({execution}) {
  const {metrics, error, state} = execution;
  const hasRun = state === 'finished';
  return html`<${Panel} label="Facts" class="has-facts">
    ${error &&
    html`<p class="fault">
      <code>${error.code}</code>${' '}<${Said}>${error.detail}<//>${' '}<${Link} href="/docs">All errors<//>
    </p>`}
    <${KeyValue}
      items=${[
        ['Caller', html`<bdi>${execution.caller}</bdi>`],
        ['Role', html`<bdi>${execution.role}</bdi>`],
        ['Language', execution.kind === 'call' ? 'single tool call' : language(execution.language)],
        ['Skill', execution.skill && html`<${SkillLink} label=${execution.skill} />`],
        ['Accepted', html`<time datetime=${execution.acceptedAt} title=${fullTime(execution.acceptedAt)}>${time(execution.acceptedAt)}</time>`],
        ['Duration', hasRun || isUnderWay(execution) ? html`<${Took} execution=${execution} />` : null],
        ['Queued for', hasRun ? ms(metrics.queueMs) : null],
        ['Sandbox', hasRun ? `${execution.warm ? 'warm' : 'cold'}, ${ms(metrics.startMs)}` : null],
        ['Exit code', execution.exitCode],
        ['Cancelled by', CANCELLED_BY[execution.cancelledBy] ?? execution.cancelledBy],
        ['Background', execution.background ? 'yes' : null],
        ['Input files', namesOf(execution.inputFiles ?? [])],
        ['Id', html`<code>${execution.executionId}</code>`],
      ]}
    />
  <//>`;
}

/** @param {{label: string}} props NAME@VERSION */
function SkillLink({label}) {
  const {name, version} = skillOf(label);
  return html`<${Link} class="mono" href=${skillPath(name, version)}><${Said}>${name}<//><//> ${version && html`<span class="muted mono">${shortVersion(version)}</span>`}`;
}

const MOST_NAMES = 10;
const CANCELLED_BY = {request: 'somebody who asked for it', disconnect: 'its client, which went away', shutdown: 'the daemon, which stopped'};

/** @param {string[]} files */
function namesOf(files) {
  if (!files.length) return null;
  const names = files.slice(0, MOST_NAMES).map((name, index) => html`${index ? ', ' : ''}<bdi>${fileName(name)}</bdi>`);
  return html`${names}${files.length > MOST_NAMES ? ` and ${count(files.length - MOST_NAMES)} more` : ''}`;
}

/** @param {{execution: any, calls: any[], nowMs: number}} props `nowMs` since the program's start */
export function LimitsUsed({execution, calls, nowMs}) {
  const {limits, metrics, outputBytes, stderrBytes} = execution;
  if (!limits || execution.state === 'refused') return null;
  if (execution.state === 'interrupted') return html`<${Panel} title="Limits used"><p>What it used is not known.</p><//>`;
  const running = isUnderWay(execution);
  const wasRejected = execution.outcome === 'rejected';
  if (wasRejected && !metrics.runMs) return html`<${Panel} title="Limits used"><p>It was not run.</p><//>`;
  const ran = running ? Math.min(nowMs, limits.timeoutSeconds * 1000) : metrics.runMs;
  const atEnd = running ? 'available when it ends' : null;
  const flooded = (kept) =>
    execution.outcome === 'output_limit' && kept === Math.max(outputBytes, stderrBytes)
      ? `more than ${bytes(limits.floodBytes)} printed; ${bytes(kept)} kept`
      : null;
  return html`<${Panel} title="Limits used">
    <div class="limits">
      <${Limit} name="Time" part=${ran} whole=${limits.timeoutSeconds * 1000} show=${ms} />
      ${!wasRejected &&
      html`
        <${Limit} name="CPU time" part=${metrics.cpuMs} whole=${limits.timeoutSeconds * 1000 * limits.cpus} show=${ms} instead=${atEnd} />
        <${Limit} name="Memory" part=${metrics.maxMemoryBytes} whole=${limits.memoryBytes} show=${bytes} instead=${atEnd} />
      `}
      <${Limit} name="Output" part=${outputBytes} whole=${limits.maxOutputBytes} show=${bytes} instead=${flooded(outputBytes)} />
      ${stderrBytes > 0 &&
      html`<${Limit} name="Error output" part=${stderrBytes} whole=${limits.maxOutputBytes} show=${bytes} instead=${flooded(stderrBytes)} />`}
      <div class="limit"><span>Tool calls</span><span class="number">${count(calls.length)}</span></div>
    </div>
  <//>`;
}

function Limit({name, part, whole, show, instead}) {
  const label = `${name}: ${show(part)} of ${show(whole)}, ${percent(part, whole)}`;
  return html`<div class="limit">
    <span>${name}</span>
    <span class="number">${instead ? html`<span class="muted">${instead}</span>` : html`${show(part)} <span class="muted">of ${show(whole)}</span>`}</span>
    ${!instead && html`<${Meter} part=${part} whole=${whole} label=${label} />`}
  </div>`;
}

/** @param {{mistakes: {line: number, column: number, message: string}[], outcome: string | null}} props */
export function Mistakes({mistakes, outcome}) {
  if (!mistakes.length) return null;
  return html`<${Panel} title=${outcome === 'rejected' ? 'Why it was rejected' : 'What the check found'}>
    <ul class="told">
      ${mistakes.map(({line, column, message}, index) => html`<li key=${index}><span class="place mono">line ${line}:${column}</span><${Said}>${message}<//></li>`)}
    </ul>
  <//>`;
}

/** @param {{calls: any[]}} props */
export function Denials({calls}) {
  const denied = calls.filter(({outcome}) => outcome === 'denied');
  if (!denied.length) return null;
  return html`<${Panel} title=${plural(denied.length, 'denied call')}>
    <ul class="told">
      ${denied.slice(0, 20).map(
        ({number, server, tool, detail}) => html`<li key=${number}><span class="place mono"><bdi>${visible(server)}</bdi>/<bdi>${visible(tool)}</bdi></span><${Said}>${detail}<//></li>`,
      )}
      ${denied.length > 20 && html`<li class="muted">and ${count(denied.length - 20)} more, in the table of tool calls</li>`}
    </ul>
  <//>`;
}

/** @param {{workspace: any}} props */
export function Workspace({workspace}) {
  if (!workspace) return null;
  const {name, kept, files, bytes: size, whyNot, leftOut, leftOutCount} = workspace;
  return html`<${Panel} title="Workspace">
    <${KeyValue} items=${[['Name', html`<bdi>${name}</bdi>`], ['Kept', kept ? 'yes' : 'no'], ['Files', count(files)], ['Size', bytes(size)]]} />
    ${whyNot && html`<p class="aside"><${Said}>${whyNot}<//></p>`}
    <${LeftOut} files=${leftOut} number=${leftOutCount} />
  <//>`;
}

/** @param {{files: {name: string, bytes: number, why: string}[], number: number}} props */
export function LeftOut({files, number}) {
  if (!number) return null;
  return html`<div class="aside">
    <p class="muted">${plural(number, 'file was', 'files were')} not kept:</p>
    <ul class="told">
      ${files.map(({name, bytes: size, why}) => html`<li key=${name}><bdi>${fileName(name)}</bdi>${' '}<span class="muted">${bytes(size)}, ${words(why)}</span></li>`)}
    </ul>
  </div>`;
}
