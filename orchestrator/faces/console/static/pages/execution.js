/** One execution: its program, its output as it comes, its tool calls over time, and what it used. */
import {Code} from '../components/code.js';
import {ExecutionActions, readProgram} from '../components/execution_actions.js';
import {Denials, Facts, LimitsUsed, Mistakes, Workspace} from '../components/execution_facts.js';
import {Elapsed} from '../components/executions.js';
import {Files, Images} from '../components/files.js';
import {Output, whole} from '../components/output.js';
import {Timeline} from '../components/timeline.js';
import {Copy, Loading, Outcome, Page, Panel, Problem, Tabs} from '../components/ui.js';
import {html, useEffect, useState} from '../lib/dom.js';
import {isUnderWay, useExecution} from '../lib/execution.js';
import {bytes, shortId} from '../lib/format.js';
import {save} from '../lib/pictures.js';
import {Link} from '../lib/router.js';

const TICK_MS = 150; // of bars that grow

export default function Execution({params: {id}}) {
  const watched = useExecution(id);
  const {execution, error} = watched;
  const title = `Execution ${shortId(id)}`;
  if (execution) return html`<${Known} title=${title} ...${watched} />`;
  return html`<${Page} title=${title}>
    ${error ? html`<${Problem} error=${error} /><p><${Link} href="/">All executions<//></p>` : html`<${Loading} />`}
  <//>`;
}

function Known({title, execution, images, chunks, streamed, calls, startedAt, take}) {
  const [failure, setFailure] = useState(null);
  const program = useProgram(execution);
  const running = isUnderWay(execution);
  const now = useTicks(running);
  const nowMs = running ? Math.max(0, now - startedAt) : (execution.metrics?.runMs ?? 0);
  const heading = html`<span class="execution-title">
    <span>Execution <span class="mono" title=${execution.executionId}>${shortId(execution.executionId)}</span></span>
    <${Outcome} execution=${execution} />
    ${running && html`<${Elapsed} since=${execution.acceptedAt} />`}
  </span>`;
  const actions = html`<${ExecutionActions} execution=${execution} program=${program.code} onChange=${take} onError=${setFailure} />`;
  return html`<${Page} title=${title} heading=${heading} actions=${actions}>
    ${failure && html`<${Problem} error=${failure} />`}
    <${Facts} execution=${execution} />
    <div class="execution">
      <div class="stack">
        <${Mistakes} mistakes=${execution.mistakes ?? []} outcome=${execution.outcome} />
        <${Calls} calls=${calls} running=${running} nowMs=${nowMs} />
        <${Denials} calls=${calls} />
        <${Images} images=${images} number=${execution.imageCount ?? 0} />
        <${Printed} execution=${execution} chunks=${chunks} streamed=${streamed} running=${running} />
        <${Program} execution=${execution} program=${program} />
      </div>
      <div class="stack">
        <${LimitsUsed} execution=${execution} calls=${calls} nowMs=${nowMs} />
        <${Files} execution=${execution} />
        <${Workspace} workspace=${execution.workspace} />
      </div>
    </div>
  <//>`;
}

function Calls({calls, running, nowMs}) {
  if (!calls.length) return running && html`<${Panel} title="Tool calls" class="is-flush"><p class="none">None yet.</p><//>`;
  return html`<${Panel} label="Tool calls" class="is-flush"><${Timeline} title="Tool calls" calls=${calls} running=${running} nowMs=${nowMs} /><//>`;
}

function Printed({execution, chunks, streamed, running}) {
  const {outcome, outputBytes, stderrBytes, state, truncated, metrics} = execution;
  const [chosen, setChosen] = useState('');
  const onlyErrors = stderrBytes > 0 && (!outputBytes || (outcome !== 'completed' && outcome !== null));
  const selected = chosen || (streamed ? 'both' : onlyErrors ? 'stderr' : 'stdout');
  const tabs = [
    ...(streamed ? [{id: 'both', label: 'Both'}] : []),
    {id: 'stdout', label: `stdout${running ? '' : ` ${bytes(outputBytes)}`}`},
    {id: 'stderr', label: `stderr${running ? '' : ` ${bytes(stderrBytes)}`}`},
  ];
  const stream = selected === 'both' ? undefined : selected;
  const lost = state === 'interrupted' ? 'What it printed was lost when the daemon was stopped.' : undefined;
  const name = `${execution.executionId}-${selected}.txt`;
  const download = html`<button type="button" onClick=${() => save(new Blob([whole(undefined, chunks, stream)]), name)}>Save</button>`;
  return html`<${Panel} label="Output" class="is-flush">
    <${Tabs} title="Output" label="Streams" tabs=${tabs} selected=${selected} onSelect=${setChosen}>
      ${truncated && html`<p class="none">The output was too long: ${bytes(metrics.droppedBytes)} from its middle were dropped.</p>`}
      <${Output} key=${`${selected} ${streamed}`} chunks=${chunks} stream=${stream} label=${selected === 'both' ? 'stdout and stderr' : selected} running=${running} empty=${lost} actions=${download} />
    <//>
  <//>`;
}

function Program({execution, program}) {
  const {code, error, loading} = program;
  if (execution.kind === 'call' || execution.codeBytes === null) return null;
  const copy = code !== null && html`<span class="muted">${bytes(execution.codeBytes)}</span><${Copy} text=${code} />`;
  return html`<${Panel} title="Program" class="is-flush" actions=${copy}>
    ${code !== null && html`<${Code} code=${code} language=${execution.language} numbered mistakes=${execution.mistakes} label="Program" />`}
    ${loading && html`<div class="none"><${Loading} /></div>`}
    ${error && html`<${Problem} error=${error} />`}
    ${!execution.programKept &&
    html`<p class="none">The journal keeps no programs here. Its SHA-256 is <code class="digest">${execution.codeSha256}</code></p>`}
  <//>`;
}

/** Its program, where the journal keeps it. */
function useProgram({executionId, programKept}) {
  const [state, setState] = useState({code: null, error: null, loading: Boolean(programKept)});
  useEffect(() => {
    if (!programKept) return undefined;
    let wanted = true;
    readProgram(executionId).then(
      (code) => wanted && setState({code, error: null, loading: false}),
      (error) => wanted && setState({code: null, error, loading: false}),
    );
    return () => {
      wanted = false;
    };
  }, [executionId, programKept]);
  return state;
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
