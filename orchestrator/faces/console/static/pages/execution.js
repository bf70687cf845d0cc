/** One execution: its program, its output as it comes, its tool calls over time, and what it used. */
import {Code} from '../components/code.js';
import {ExecutionActions, readProgram} from '../components/execution_actions.js';
import {Denials, Facts, LimitsUsed, Mistakes, Workspace} from '../components/execution_facts.js';
import {Elapsed} from '../components/executions.js';
import {Files, Images} from '../components/files.js';
import {Output, whole} from '../components/output.js';
import {Timeline} from '../components/timeline.js';
import {Copy, Loading, Outcome, Page, Panel, Problem, Tabs} from '../components/ui.js';
import {html, useEffect, useMemo, useState} from '../lib/dom.js';
import {useExecution} from '../lib/execution.js';
import {isUnderWay} from '../lib/filters.js';
import {bytes, shortId} from '../lib/format.js';
import {useLoaded} from '../lib/load.js';
import {save} from '../lib/pictures.js';
import {Link} from '../lib/router.js';

const TICK_MS = 150; // of bars that grow

export default function Execution({params: {id}}) {
  const watched = useExecution(id);
  const {execution, error, retry} = watched;
  const title = `Execution ${shortId(id)}`;
  if (execution) return html`<${Known} title=${title} ...${watched} />`;
  return html`<${Page} title=${title}>
    ${error ? html`<${Problem} error=${error} retry=${retry} /><p><${Link} href="/">All executions<//></p>` : html`<${Loading} />`}
  <//>`;
}

function Known({title, execution, error, retry, images, chunks, streamed, complete, calls, startedAt, take}) {
  const [failure, setFailure] = useState(null);
  const {executionId, programKept} = execution;
  const program = useLoaded(async () => (programKept ? readProgram(executionId) : null), [executionId, programKept]);
  const running = isUnderWay(execution);
  const heading = html`<span class="execution-title">
    <span>Execution <span class="mono" title=${execution.executionId}>${shortId(execution.executionId)}</span></span>
    <${Outcome} execution=${execution} />
    ${running && html`<${Elapsed} since=${execution.acceptedAt} />`}
  </span>`;
  const actions = html`<${ExecutionActions} execution=${execution} program=${program.value} onChange=${take} onError=${setFailure} />`;
  return html`<${Page} title=${title} heading=${heading} actions=${actions}>
    ${failure && html`<${Problem} error=${failure} />`}
    ${error && html`<${Problem} error=${error} retry=${retry} />`}
    <${Facts} execution=${execution} />
    <div class="execution">
      <div class="stack">
        <${Mistakes} mistakes=${execution.mistakes ?? []} outcome=${execution.outcome} />
        <${Calls} execution=${execution} calls=${calls} startedAt=${startedAt} />
        <${Denials} calls=${calls} />
        <${Images} images=${images} number=${execution.imageCount ?? 0} />
        <${Printed} execution=${execution} chunks=${chunks} streamed=${streamed} complete=${complete} error=${error} />
        <${Program} execution=${execution} program=${program} />
      </div>
      <div class="stack">
        <${Used} execution=${execution} calls=${calls} startedAt=${startedAt} />
        <${Files} execution=${execution} />
        <${Workspace} workspace=${execution.workspace} />
      </div>
    </div>
  <//>`;
}

function Calls({execution, calls, startedAt}) {
  const running = isUnderWay(execution);
  const nowMs = useRunMs(execution, startedAt);
  if (!calls.length) return running && html`<${Panel} title="Tool calls" class="is-flush"><p class="none">None yet.</p><//>`;
  return html`<${Panel} label="Tool calls" class="is-flush"><${Timeline} title="Tool calls" calls=${calls} running=${running} nowMs=${nowMs} /><//>`;
}

function Used({execution, calls, startedAt}) {
  return html`<${LimitsUsed} execution=${execution} calls=${calls} nowMs=${useRunMs(execution, startedAt)} />`;
}

function Printed({execution, chunks, streamed, complete, error}) {
  const {outcome, outputBytes, stderrBytes, state, truncated, metrics} = execution;
  const [chosen, setChosen] = useState('');
  const running = isUnderWay(execution);
  const isLost = state === 'interrupted';
  const size = (bytesOfStream) => (running || isLost ? '' : ` ${bytes(bytesOfStream)}`);
  const onlyErrors = stderrBytes > 0 && (!outputBytes || !['completed', 'cancelled', null].includes(outcome));
  const tabs = [
    ...(streamed ? [{id: 'both', label: 'Both'}] : []),
    {id: 'stdout', label: `stdout${size(outputBytes)}`},
    {id: 'stderr', label: `stderr${size(stderrBytes)}`},
  ];
  // What was chosen may be gone: there is no common order in what is read at the end.
  const isThere = tabs.some(({id}) => id === chosen);
  const selected = isThere ? chosen : streamed ? 'both' : onlyErrors ? 'stderr' : 'stdout';
  const stream = selected === 'both' ? undefined : selected;
  const printed = {stdout: outputBytes, stderr: stderrBytes, both: outputBytes + stderrBytes}[selected];
  const awaited = printed > 0 && !complete ? (error ? 'The output could not be read.' : html`<${Loading} />`) : undefined;
  const empty = isLost ? 'Its output was lost when the daemon stopped.' : awaited;
  const name = `${execution.executionId}-${selected}.txt`;
  const download = html`<button type="button" onClick=${() => save(new Blob([whole(undefined, chunks, stream)]), name)}>Save</button>`;
  return html`<${Panel} label="Output" class="is-flush">
    <${Tabs} title="Output" label="Streams" tabs=${tabs} selected=${selected} onSelect=${setChosen}>
      ${truncated && html`<p class="none">The output was too long: ${bytes(metrics.droppedBytes)} in the middle were dropped.</p>`}
      <${Output} key=${`${selected} ${streamed}`} chunks=${chunks} stream=${stream} label=${selected === 'both' ? 'stdout and stderr' : selected} running=${running} empty=${empty} actions=${download} />
    <//>
  <//>`;
}

function Program({execution, program}) {
  const {value: code, error, loading, reload} = program;
  const {language, mistakes, programKept} = execution;
  // A long program is not compared line by line whenever something is printed.
  const shown = useMemo(
    () => code !== null && html`<${Code} code=${code} language=${language} numbered mistakes=${mistakes} label="Program" />`,
    [code, language, mistakes],
  );
  if (execution.kind === 'call' || execution.codeBytes === null) return null;
  const copy = code !== null && html`<span class="muted">${bytes(execution.codeBytes)}</span><${Copy} text=${code} />`;
  return html`<${Panel} title="Program" class="is-flush" actions=${copy}>
    ${shown}
    ${loading && code === null && html`<div class="none"><${Loading} /></div>`}
    ${error && html`<${Problem} error=${error} retry=${reload} />`}
    ${!programKept &&
    html`<p class="none">
      This program is not in the journal: it was too large or too old to be kept, or the journal keeps only hashes. Its SHA-256 is${' '}
      <code>${execution.codeSha256}</code>
    </p>`}
  <//>`;
}

/** How long the program has run, or ran. It ticks, so only what grows with it asks for it. */
function useRunMs(execution, startedAt) {
  const running = isUnderWay(execution);
  const now = useTicks(running);
  return running ? Math.max(0, now - startedAt) : (execution.metrics?.runMs ?? 0);
}

/** This machine's time, as often as bars grow. */
function useTicks(running) {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    if (!running) return undefined;
    const timer = setInterval(() => setNow(Date.now()), TICK_MS);
    return () => clearInterval(timer);
  }, [running]);
  return now;
}
