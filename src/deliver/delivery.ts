import type {Asked} from '../mail/outcome.ts';
import type {Terms} from '../mail/route.ts';

/** One recipient of a message, ready to be delivered. */
export type Delivery = {
	readonly recipientId: string;
	/** The recipient's domain as an A-label, lower case. */
	readonly destination: string;
	readonly envelope: {
		/** The return path; empty: the null reverse-path. */
		readonly from: string;
		/** The validated address; its domain is an A-label. */
		readonly to: string;
		/** It, or an address in the headers, is not ASCII: only a host that offers SMTPUTF8 may get the mail (RFC 6531). */
		readonly smtputf8: boolean;
	};
	/** Envelope id (RFC 3461 §4.4), comes back in reports. */
	readonly ref: string;
	readonly terms: Terms;
	/** The complete message: CRLF, 7-bit unless `smtputf8`, not dot-stuffed. */
	readonly data: Uint8Array;
	/** Which try this is, from 1. */
	readonly attempt: number;
	/** Addresses that earlier tries asked, oldest first, the last 50; absent: none. */
	readonly asked?: readonly Asked[];
	/** End of the lifetime, milliseconds since the epoch. After it no further host is asked. */
	readonly endsAt: number;
	/** Nothing leaves the machine (test keys). Mail to `simulator.test` is always simulated. */
	readonly simulated: boolean;
	/** An earlier try was deferred as `unknown_domain`, long enough ago: a second such answer is final. */
	readonly nxdomainBefore?: boolean;
	/** Likewise as `no_address`. */
	readonly noAddressBefore?: boolean;
};
