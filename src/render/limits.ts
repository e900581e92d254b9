/** A template's fields and sources, each: characters that Liquid will parse. */
export const longestSource = 262_144;
/** MJML elements in one source; a mail that people read has some dozens. */
export const mostElements = 500;
/** One rendered part, in octets. */
export const largestPart = 1_000_000;
/** Time for the subject, the html and the text of one mail together, in milliseconds. */
export const renderTime = 500;
/** Objects and characters that one part's rendering may make, in liquidjs's units (about octets). */
export const renderMemory = 10_000_000;
/** RFC 5322 §2.1.1: the longest line of a mail. */
export const longestSubject = 998;
