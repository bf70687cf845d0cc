/** Connections only while somebody looks: a browser has six to a host, and tabs in the background need none. */

const HIDDEN_MS = 1500; // so that a short look at another tab costs no new connection

// A browser keeps a page that was left, with its connections, for whoever goes back to it; it stands still meanwhile.
let wasLeft = false;
addEventListener('pagehide', () => (wasLeft = true));
addEventListener('pageshow', () => (wasLeft = false));

const isSeen = () => !wasLeft && document.visibilityState === 'visible';

/** Wait while nobody looks at the page. @param {AbortSignal} signal */
export function whileHidden(signal) {
  if (isSeen() || signal.aborted) return undefined;
  return new Promise((resolve) => {
    const done = new AbortController();
    const look = () => {
      if (!isSeen() && !signal.aborted) return;
      done.abort();
      resolve(undefined);
    };
    document.addEventListener('visibilitychange', look, {signal: done.signal});
    addEventListener('pageshow', look, {signal: done.signal});
    signal.addEventListener('abort', look, {signal: done.signal});
  });
}

/**
 * Do something that can be taken up again, and stop it when the page is hidden for a while, or left.
 * @param {AbortSignal} signal stops it as well
 * @param {(attempt: AbortController) => Promise<void>} work
 * @returns {Promise<boolean>} whether it was stopped because the page is hidden
 */
export async function whileVisible(signal, work) {
  const attempt = new AbortController();
  const done = new AbortController();
  let [timer, isHidden] = [0, false];
  const hide = () => {
    isHidden = true;
    attempt.abort();
  };
  const look = () => {
    clearTimeout(timer);
    if (document.visibilityState !== 'visible') timer = setTimeout(hide, HIDDEN_MS);
  };
  document.addEventListener('visibilitychange', look, {signal: done.signal});
  addEventListener('pagehide', hide, {signal: done.signal});
  signal.addEventListener('abort', () => attempt.abort(), {signal: done.signal});
  look();
  try {
    await work(attempt);
  } catch (error) {
    if (!isHidden) throw error;
  } finally {
    clearTimeout(timer);
    done.abort();
  }
  return isHidden;
}
