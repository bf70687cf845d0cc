/** Time that passes while one looks. */
import {serverNow} from './api.js';
import {useEffect, useState} from './dom.js';

/**
 * The daemon's time, again after each period; 0 stands still.
 * @param {number} [periodMs]
 */
export function useNow(periodMs = 1000) {
  const [now, setNow] = useState(serverNow);
  useEffect(() => {
    if (!periodMs) return undefined;
    setNow(serverNow());
    const timer = setInterval(() => setNow(serverNow()), periodMs);
    return () => clearInterval(timer);
  }, [periodMs]);
  return now;
}
