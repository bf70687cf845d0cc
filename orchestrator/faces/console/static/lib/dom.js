/** What the pages need of Preact and htm; the one place that knows where they come from. */
export {
  h,
  html,
  render,
  useCallback,
  useEffect,
  useErrorBoundary,
  useLayoutEffect,
  useMemo,
  useReducer,
  useRef,
  useState,
} from '/console/vendor/htm.js';
