/** Runs of skills by name. They belong to the app and not to a page: the daemon ends one when nobody reads its stream. */
import {stream} from './api.js';

/**
 * Begin a run, and go on reading it to its end.
 * @param {string} name
 * @param {object} input
 * @returns {Promise<string>} the id of its execution, as soon as there is one
 */
export function beginRun(name, input) {
  const ask = (event) => event.preventDefault(); // closing the tab ends the stream, and with it the run
  addEventListener('beforeunload', ask);
  return new Promise((resolve, reject) => {
    const take = (event) => event.name === 'started' && resolve(event.data.executionId);
    stream('POST', `/skills/${encodeURIComponent(name)}/run`, {body: {input}, onEvent: take})
      .then(() => reject(new Error('The connection closed before the skill was run.')), reject)
      .finally(() => removeEventListener('beforeunload', ask));
  });
}
