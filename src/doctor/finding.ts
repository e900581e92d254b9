/** `warn`: mail goes, worse than it could. `fail`: mail does not go, is refused, or bounces are lost. */
export type Status = 'ok' | 'warn' | 'fail';

/** What one check found. */
export type Finding = {
	/** A stable word, such as `reverse-dns`; the same one may come several times, as for each address. */
	readonly check: string;
	readonly status: Status;
	/** What was found. */
	readonly detail: string;
	/** Why it matters; the same for every finding of a check. */
	readonly why: string;
	/** How to mend it; empty where all is well. */
	readonly fix: string;
};

/** A finding before it is known which check made it. */
export type Found = Pick<Finding, 'status' | 'detail' | 'fix'>;

export type Check = {
	readonly name: string;
	readonly why: string;
	/** Looks; rejects only where we have a bug. */
	readonly look: () => Promise<Found[]>;
};

export const ok = (detail: string): Found => ({status: 'ok', detail, fix: ''});
export const warn = (detail: string, fix: string): Found => ({status: 'warn', detail, fix});
export const fail = (detail: string, fix: string): Found => ({status: 'fail', detail, fix});
