/** The program that runs or ran last. It belongs to the app and not to a page, so one may look at other pages meanwhile. */
import {del, stream} from '../lib/api.js';
import {current} from '../lib/session.js';
import {Store, useStore} from '../lib/store.js';

const IDLE = {state: 'idle', id: null, caller: null, program: null, chunks: [], calls: [], result: null, error: null, stopping: false};
const run = new Store(IDLE);
let aborter = null;

/** The run of the caller who is signed in; after another one has signed in there is none. */
export function useRun() {
  const last = useStore(run);
  return last.caller === current()?.caller ? last : IDLE;
}

/** @param {{code: string, language: string, timeoutSeconds: number}} program */
export async function start(program) {
  aborter?.abort();
  const controller = new AbortController();
  aborter = controller;
  const gathered = new Gathered((patch) => controller.signal.aborted || run.set({...run.value, ...patch}));
  run.set({...IDLE, state: 'running', caller: current()?.caller, program});
  addEventListener('beforeunload', ask);
  try {
    await stream('POST', '/execute', {body: program, signal: controller.signal, onEvent: (event) => gathered.take(event)});
    gathered.end(null);
  } catch (error) {
    gathered.end(error);
  } finally {
    if (aborter === controller) removeEventListener('beforeunload', ask);
  }
}

export async function stop() {
  const {id} = run.value;
  run.set({...run.value, stopping: true, error: null});
  try {
    await del(`/executions/${encodeURIComponent(id)}`);
  } catch (error) {
    const isUnderWay = run.value.id === id && run.value.state === 'running';
    const hasEnded = error.status === 404 || error.status === 409; // by itself; the stream says how
    if (isUnderWay) run.set({...run.value, stopping: false, error: hasEnded ? null : error});
  }
}

/** Closing the tab ends the stream, and with it the program. */
const ask = (event) => event.preventDefault();

/** What has come of an execution so far; told at most once a frame. Its chunks are one array that grows, as Output wants it. */
class Gathered {
  #chunks = [];
  #calls = [];
  #patch = {};
  #frame = 0;
  #hasResult = false;
  #tell;

  constructor(tell) {
    this.#tell = tell;
  }

  take({name, data}) {
    if (name === 'started') this.#patch.id = data.executionId;
    else if (name === 'stdout' || name === 'stderr') this.#chunks.push({stream: name, text: data.text});
    else if (name === 'tool_call') this.#calls.push({...data, number: this.#calls.length});
    else if (name === 'result') this.#finish(data);
    this.#frame ||= requestAnimationFrame(() => this.#flush());
  }

  end(error) {
    const lost = error || this.#hasResult ? error : new Error('The connection closed before the result arrived.');
    Object.assign(this.#patch, {state: 'ended', stopping: false, error: lost});
    cancelAnimationFrame(this.#frame);
    this.#flush();
  }

  #finish(result) {
    this.#hasResult = true;
    this.#calls = result.toolCalls.map((call, number) => ({...call, number}));
    this.#patch.result = result;
  }

  #flush() {
    this.#frame = 0;
    this.#tell({chunks: this.#chunks, calls: [...this.#calls], ...this.#patch});
    this.#patch = {};
  }
}
