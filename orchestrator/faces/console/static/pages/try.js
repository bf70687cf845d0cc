/** Write a program, run it, and see what it does while it does it. */
import {get, text as readText} from '../lib/api.js';
import {html, useCallback, useEffect, useReducer, useRef, useState} from '../lib/dom.js';
import {count, LANGUAGES, language as nameOf, ms, plural, visible} from '../lib/format.js';
import {Link, setQuery, useRoute} from '../lib/router.js';
import {current} from '../lib/session.js';
import {Confirm} from '../components/confirm.js';
import {Pictures} from '../components/files.js';
import {Output} from '../components/output.js';
import {Timeline} from '../components/timeline.js';
import {Empty, Field, Loading, Outcome, Page, Panel, Problem, Said, Select} from '../components/ui.js';
import {asideOf, draftOf, dropAside, dropOwner, isChanged, keepDraft, keepLanguage, keepOwner, keptLanguage, ownerOf, replaceDraft, setAside, takeBack} from '../editor/drafts.js';
import {exampleProgram, languageOf, starter} from '../editor/programs.js';
import {start, stop, useRun} from '../editor/run.js';
import {completions, wrappersOf} from '../editor/wrappers.js';
import {executionPath} from './links.js';

const [SHORTEST_SECONDS, LONGEST_SECONDS] = [1, 300];
const isMac = /Mac|iPhone|iPad/.test(navigator.platform);

export default function Try() {
  const {query} = useRoute();
  const editor = useRef(null);
  const [language, setLanguage] = useState(() => languageOf(query.get('language')) ?? languageOf(keptLanguage()) ?? 'typescript');
  const [seconds, setSeconds] = useState('30');
  const [notice, setNotice] = useState(null);
  const [asks, setAsks] = useState(/** @type {'' | 'over' | 'foreign'} */ (''));
  const [, render] = useReducer((times) => times + 1, 0);
  const run = useRun();
  const begin = useRef(() => {});
  begin.current = () => {
    if (run.state === 'running' || !editor.current) return;
    const program = {code: editor.current.text(), language, timeoutSeconds: Number(seconds)};
    const refusal = refusalOf(program);
    setNotice(refusal);
    if (refusal) return;
    if (ownerOf(language) !== null) return setAsks('foreign');
    editor.current.showMistakes([]);
    start(program);
  };
  const show = (spoken) => {
    keepLanguage(spoken);
    setLanguage(spoken);
    editor.current?.show(draftOf(spoken), spoken);
    render(); // what was set aside may have changed
  };
  const change = (spoken) => {
    show(spoken);
    setNotice(null);
    setQuery({language: spoken, from: '', server: '', tool: ''});
  };
  const startOver = () => {
    replaceDraft(language, starter(language));
    show(language);
  };
  const runForeign = () => {
    dropOwner(language);
    begin.current();
  };
  const settleAside = (settle) => {
    settle(language);
    show(language);
    setNotice(null);
  };
  const mark = () => {
    const {result, program} = run;
    if (!result || program.language !== language || program.code !== editor.current?.text()) return;
    editor.current.showMistakes(result.mistakes.map((mistake) => ({...mistake, message: visible(mistake.message)})));
  };
  useProgramOfAddress(query, language, show, setNotice, setSeconds);
  useEffect(mark, [run.result]);
  const ready = () => {
    show(language);
    mark();
  };
  const keys = (event) => {
    if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey) || event.defaultPrevented) return;
    event.preventDefault();
    begin.current();
  };
  return html`
    <${Page} title="Try it" lead="Run a program in a sandbox of its own. It calls tools as functions; what it prints is its result.">
      ${notice && html`<${Problem} error=${notice} />`}
      ${asideOf(language) !== null && html`<${Aside} language=${language} onRestore=${() => settleAside(takeBack)} onDrop=${() => settleAside(dropAside)} />`}
      ${ownerOf(language) !== null && html`<p class="note" role="status">This is <bdi>${ownerOf(language)}</bdi>’s program. It runs with your role: read it first.</p>`}
      <div class="try" onKeyDown=${keys}>
        <${Panel} label="Program">
          <div class="try-bar">
            <${Select} label="Language" value=${language} options=${LANGUAGES.map(({id, label}) => ({value: id, label}))} onChange=${change} />
            <${Field} label=${`Timeout, ${SHORTEST_SECONDS} to ${LONGEST_SECONDS} s`}>
              <input type="number" min=${SHORTEST_SECONDS} max=${LONGEST_SECONDS} step="1" value=${seconds} onInput=${(event) => setSeconds(event.target.value)} />
            <//>
            <div class="actions">
              <button type="button" onClick=${() => (isChanged(language) ? setAsks('over') : startOver())}>Start over</button>
              ${run.state === 'running'
                ? html`<button type="button" class="danger" disabled=${!run.id || run.stopping} onClick=${stop}>${run.stopping ? 'Stopping…' : 'Stop'}</button>`
                : html`<button type="button" class="primary" onClick=${() => begin.current()}>Run <kbd>${isMac ? '⌘' : 'Ctrl'} ↵</kbd></button>`}
            </div>
          </div>
          <${Editor} editor=${editor} language=${language} onRun=${() => begin.current()} onReady=${ready} />
          <p class="note try-keys">Tab indents. To leave the editor, press Escape, then Tab. Ctrl Space completes.</p>
        <//>
        <div class="try-result">
          <${Result} run=${run} onLine=${(line) => editor.current?.goTo(line)} />
        </div>
      </div>
      ${asks === 'over' &&
      html`<${Confirm} title="Start over?" yes="Start over" no="Keep my program" onYes=${startOver} onClose=${() => setAsks('')}>
        <p>Your ${nameOf(language)} program will be replaced by the first example.</p>
      <//>`}
      ${asks === 'foreign' &&
      html`<${Confirm} title=${`Run this program as ${current()?.caller}?`} yes="Run it" tone="primary" onYes=${runForeign} onClose=${() => setAsks('')}>
        <p><strong>This is <bdi>${ownerOf(language)}</bdi>’s program; it would run with your role.</strong> Read it first.</p>
      <//>`}
    <//>
  `;
}

/** Why a program cannot be run as it is, or null. */
function refusalOf({code, timeoutSeconds}) {
  if (!(timeoutSeconds >= SHORTEST_SECONDS && timeoutSeconds <= LONGEST_SECONDS)) return new Error(`The timeout must be between ${SHORTEST_SECONDS} and ${LONGEST_SECONDS} seconds.`);
  return code.trim() ? null : new Error('There is no program. Write one, or start over with the first example.');
}

/** What was written before another program was opened. */
function Aside({language, onRestore, onDrop}) {
  return html`<div class="try-aside" role="status">
    <p>The ${nameOf(language)} program that you had written was set aside.</p>
    <button type="button" onClick=${onRestore}>Restore your draft</button>
    <button type="button" onClick=${onDrop}>Discard it</button>
  </div>`;
}

/** Load the program that the address asks for: of an execution, or the example of a tool. */
function useProgramOfAddress(query, language, show, tell, setSeconds) {
  const [from, server, tool] = ['from', 'server', 'tool'].map((name) => query.get(name));
  useEffect(() => {
    let wanted = true;
    const read = from ? programOf(from) : server && tool ? exampleOf(server, tool, languageOf(query.get('language')) ?? language) : null;
    read?.then(
      (program) => {
        if (!wanted) return;
        tell(null);
        if (program.text !== draftOf(program.language)) setAside(program.language);
        replaceDraft(program.language, program.text);
        if (program.owner && program.owner !== current()?.caller) keepOwner(program.language, program.owner);
        show(program.language);
        if (program.seconds) setSeconds(String(Math.min(LONGEST_SECONDS, program.seconds)));
        // Loaded once: after a reload the draft counts, with what was written since.
        setQuery({language: program.language, from: '', server: '', tool: ''});
      },
      (error) => wanted && tell(error),
    );
    return () => {
      wanted = false;
    };
  }, [from, server, tool]);
}

async function programOf(id) {
  const path = `/executions/${encodeURIComponent(id)}`;
  const execution = await get(path, {length: 1}); // its output is not wanted
  if (!execution.programKept || !languageOf(execution.language)) {
    throw Object.assign(new Error('The program of this execution was not kept.'), {hint: 'Write it again, or start from another execution.'});
  }
  return {text: await readText(`${path}/program`), language: execution.language, owner: execution.caller, seconds: execution.limits?.timeoutSeconds};
}

async function exampleOf(server, tool, language) {
  const info = await get(`/tools/info/${encodeURIComponent(server)}/${encodeURIComponent(tool)}`);
  return {text: exampleProgram(info, language), language};
}

function Editor({editor, language, onRun, onReady}) {
  const place = useRef(null);
  const spoken = useRef(language);
  spoken.current = language;
  const [error, setError] = useState(null);
  const [ready, setReady] = useState(false);
  const complete = useCompletion(spoken);
  useEffect(() => {
    let wanted = true;
    import('/console/vendor/editor.js').then(
      ({createEditor}) => {
        if (!wanted) return;
        editor.current = createEditor({
          root: place.current.shadowRoot ?? place.current.attachShadow({mode: 'open'}),
          text: draftOf(spoken.current),
          language: spoken.current,
          label: 'Program',
          description: 'Tab indents. To leave the editor, press Escape, then Tab.',
          complete,
          onChange: (text, written) => keepDraft(written, text),
          onRun,
        });
        setReady(true);
      },
      () => wanted && setError(new Error('The editor could not be loaded: the daemon does not answer.')),
    );
    return () => {
      wanted = false;
      editor.current?.destroy();
      editor.current = null;
    };
  }, []);
  useEffect(() => {
    if (ready) onReady();
  }, [ready]);
  return html`
    ${error && html`<${Problem} error=${error} />`}
    ${!ready && !error && html`<${Loading} label="Loading the editor" />`}
    <div class="try-editor" ref=${place} hidden=${!ready}></div>
  `;
}

/** Completion that reads the tools once, and the schema of a tool when its arguments are wanted. */
function useCompletion(language) {
  const wrappers = useRef(null);
  const schemas = useRef(new Map());
  return useCallback(async (text, position, explicit) => {
    wrappers.current ??= get('/tools', {detail: 'description'}).then(wrappersOf);
    const known = await wrappers.current.catch(() => {
      wrappers.current = null;
      return [];
    });
    const schemaOf = ({server, tool}) => {
      const path = `/tools/info/${encodeURIComponent(server)}/${encodeURIComponent(tool)}`;
      if (!schemas.current.has(path)) schemas.current.set(path, get(path).then((info) => info.inputSchema, () => null));
      return schemas.current.get(path);
    };
    const found = await completions({text, position, explicit, language: language.current, wrappers: known, schemaOf});
    return found && {...found, options: found.options.map((option) => ({...option, info: option.info && visible(option.info)}))};
  }, []);
}

function Result({run, onLine}) {
  if (run.state === 'idle') {
    return html`<${Panel} title="Result" class="is-flush">
      <${Empty} title="Nothing has run yet.">
        <p>Press Run. What the program prints appears here while it runs, with each tool call.</p>
      <//>
    <//>`;
  }
  const {result, chunks, calls} = run;
  return html`
    <${Panel}
      title="Result"
      class="is-flush"
      actions=${html`
        <span role="status">${run.state === 'running' ? html`<${Outcome} execution=${{state: 'running'}} />` : result && html`<${Outcome} execution=${result} />`}</span>
        ${run.id && html`<${Link} href=${executionPath(run.id)}>Open the execution<//>`}
      `}
    >
      ${(run.error || result) &&
      html`<div class="try-notes">
        ${run.error && html`<${Problem} error=${run.error} />`}
        ${result && html`<p class="note">${summary(result)}</p>`}
        ${result?.error && html`<${Problem} error=${result.error} />`}
        ${result?.mistakes.length > 0 && html`<${Mistakes} mistakes=${result.mistakes} onLine=${onLine} />`}
      </div>`}
      ${(run.id || !run.error) && html`<${Output} chunks=${chunks} running=${run.state === 'running'} />`}
      ${result?.images?.length > 0 && html`<div class="pictures"><${Pictures} images=${result.images} /></div>`}
    <//>
    ${calls.length > 0 && html`<${Panel} title="Tool calls" class="is-flush"><${Timeline} calls=${calls} running=${run.state === 'running'} /><//>`}
  `;
}

function summary(result) {
  const told = [ms(result.executionTime)];
  if (result.exitCode) told.push(`exit code ${result.exitCode}`);
  if (result.toolCalls.length) told.push(plural(result.toolCalls.length, 'tool call'));
  if (result.metrics.outputTokens) told.push(`${count(result.metrics.outputTokens)} tokens of output`);
  if (result.files.length) told.push(plural(result.files.length, 'file'));
  return told.join(' · ');
}

function Mistakes({mistakes, onLine}) {
  return html`<ul class="mistakes" aria-label="Mistakes">
    ${mistakes.map(
      ({line, message}, index) => html`<li key=${index}>
        <button type="button" class="as-link" onClick=${() => onLine(line)}>Line ${line}</button> <${Said}>${message}<//>
      </li>`,
    )}
  </ul>`;
}
