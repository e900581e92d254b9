/** Characters of each field and source of a template, because Liquid parses no more. */
export const maxSourceLength = 262_144;
/** The number of partials in the source of a field, and how deep they may nest. */
export const maxPartials = 200;
export const maxPartialDepth = 10;
/** MJML elements in one source. Ordinary messages have a few dozen. */
export const maxElements = 500;
/** One rendered part, in octets. */
export const maxPartBytes = 1_000_000;
/** Milliseconds of both wall-clock and CPU time for the subject, HTML and text of one message together. */
export const renderTime = 500;
/** `{{` and `{%` in one field. Each takes about a kilobyte once parsed. */
export const maxLiquid = 5000;
/** List items and characters that rendering one part may produce. An item of a range takes about 20 octets. */
export const renderMemory = 3_000_000;
/** RFC 5322 §2.1.1: the maximum length of a line. */
export const maxSubjectLength = 998;
/** The nesting depth of HTML elements. HTML parsers can take quadratic time in it. */
export const maxHtmlDepth = 1000;
