// Preloaded before /workspace/main.ts, which does not exist yet: waits for the program, then lets Node run it
// as its entry point, so that it behaves like any program started with `node main.ts`.

import { closeSync, readFileSync, readSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { format } from 'node:util';
import { isMainThread } from 'node:worker_threads';

import { workspace } from './hooks.mjs';
import { hintOnPrintedPromise, watchPrintedPromises } from './promises.mjs';
import { printToStderr, traceOf } from './trace.mjs';

const CONTROL_FD = 3;
const READY_FD = 4;
const PRELOAD = 'L';

/** Changes the options that a forked Node inherits: it must get the hooks, but not wait for a program of its own. */
function passOnlyHooksToForks() {
  const hooks = new URL('./hooks.mjs', import.meta.url).pathname;
  process.execArgv = process.execArgv.map((option) =>
    option.startsWith('--import=') ? `--import=${hooks}` : option,
  );
}

/** Makes writing block: otherwise process.exit() would drop what does not fit into the pipe at once. */
function writeSynchronously() {
  process.stdout._handle.setBlocking(true);
  process.stderr._handle.setBlocking(true);
}

/**
 * Loads and compiles, while nobody waits for it, what a first use would load and compile. Enums and their like are left
 * out: compiling that part of the stripper costs every start more than it saves the few programs that use them.
 */
async function warmUp() {
  const { default: value } = await import('./warm-up/ordinary.ts');
  process.stdout.write(format('%o', value).slice(0, 0));
  process.stderr.write(traceOf(new Error('warm-up')).slice(0, 0));
}

/** Loads what the first call of a tool needs, while nobody waits for it. */
async function loadClientLibrary() {
  try {
    await import(join(workspace, 'servers/_client.js'));
  } catch {
    // The program that needs it will see the error itself.
  }
}

/** Waits for the next order, which is one byte. */
function readOrder() {
  const order = Buffer.alloc(1);
  readSync(CONTROL_FD, order);
  return order.toString();
}

/** Waits for the program, whose file is there by then, and returns its environment. */
async function receive() {
  writeSync(READY_FD, '\n');
  while (readOrder() === PRELOAD) {
    await loadClientLibrary();
    writeSync(READY_FD, '\n');
  }
  closeSync(READY_FD);
  const parcel = readFileSync(CONTROL_FD);
  closeSync(CONTROL_FD);
  return parcel.toString('utf8', 4, 4 + parcel.readUInt32BE());
}

/** @param {string} environment NAME=value, each ended by a NUL */
function extendEnvironment(environment) {
  for (const entry of environment.split('\0').slice(0, -1)) {
    const [name, ...value] = entry.split('=');
    process.env[name] = value.join('=');
  }
}

/** @param {'uncaughtException' | 'unhandledRejection'} event */
const userListens = (event) => process.listenerCount(event) > 1;

/**
 * Shows the error and ends the program with status 1.
 * @param {unknown} error
 */
function die(error) {
  printToStderr(traceOf(error));
  process.exit(1);
}

function reportUncaughtErrors() {
  process.on('uncaughtException', (error) => {
    if (!userListens('uncaughtException')) die(error);
  });
  process.on('unhandledRejection', (reason) => {
    if (userListens('unhandledRejection')) return;
    if (!userListens('uncaughtException')) die(reason);
    process.emit('uncaughtException', reason, 'unhandledRejection');
  });
}

/** Skips the teardown of the interpreter, as process.exit() does, if the program itself does not listen for the exit. */
function leaveQuickly() {
  process.on('exit', (exitCode) => {
    const hint = hintOnPrintedPromise();
    if (hint) printToStderr(hint);
    if (process.listenerCount('exit') === 1) process.reallyExit(exitCode);
  });
}

if (isMainThread) {
  passOnlyHooksToForks();
  writeSynchronously();
  await warmUp();
  watchPrintedPromises();
  extendEnvironment(await receive());
  reportUncaughtErrors();
  leaveQuickly();
}
