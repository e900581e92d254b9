/** A template's fields and sources, each: characters that Liquid will parse. */
export const maxSourceLength = 262_144;
/** Partials of a field's source, and how deep they nest in one another. */
export const maxPartials = 200;
export const deepestPartials = 10;
/** MJML elements in one source; a mail that people read has some dozens. */
export const maxElements = 500;
/** One rendered part, in octets. */
export const largestPart = 1_000_000;
/** Time for the subject, the html and the text of one mail together, in milliseconds of the clock and of the CPU. */
export const renderTime = 500;
/** `{{` and `{%` in one field; each takes about a kilobyte once parsed. */
export const maxLiquid = 5000;
/**
 * List items and characters that the rendering of one part may make; a range's item takes some 20 octets while it
 * grows.
 */
export const renderMemory = 3_000_000;
/** RFC 5322 §2.1.1: the longest line of a mail. */
export const maxSubjectLength = 998;
/** Elements of html inside one another; readers of html take time by the square of it. */
export const deepestHtml = 1000;
