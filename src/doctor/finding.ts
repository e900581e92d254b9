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
	/** How to fix it; empty where all is well. */
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

/** Runs checks one after the other and passes on each finding as it comes; `began` gets the name of the next check. */
export async function examine(
	checks: readonly Check[],
	{began, found}: {readonly began: (check: string) => void; readonly found: (finding: Finding) => void},
): Promise<Finding[]> {
	const findings: Finding[] = [];
	for (const {name, why, look} of checks) {
		began(name);
		// What one check stumbles over must not hide what the others find.
		const results = await look().catch((error: unknown) => [
			fail(
				`the check itself failed: ${error instanceof Error ? error.message : String(error)}`,
				'please report it',
			),
		]);
		for (const one of results) {
			const finding = {check: name, why, ...one};
			findings.push(finding);
			found(finding);
		}
	}
	return findings;
}
