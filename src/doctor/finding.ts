/**
 * `warn`: mail is delivered, but less well than it could be. `fail`: mail is not sent or is refused, or bounces are
 * lost.
 */
export type Status = 'ok' | 'warn' | 'fail';

/** One result of a check. */
export type Finding = {
	/**
	 * The stable name of the check, such as `reverse-dns`. A check may have several findings, for example one per
	 * address.
	 */
	readonly check: string;
	readonly status: Status;
	/** What was found. */
	readonly detail: string;
	/** Why the check matters; the same for all its findings. */
	readonly why: string;
	/** How to fix it; empty if there is nothing to fix. */
	readonly fix: string;
};

/** A finding without the name and purpose of its check. */
export type CheckResult = Pick<Finding, 'status' | 'detail' | 'fix'>;

export type Check = {
	readonly name: string;
	readonly why: string;
	/** Runs the check. Rejects only if the check itself has a bug. */
	readonly run: () => Promise<CheckResult[]>;
};

export const ok = (detail: string): CheckResult => ({status: 'ok', detail, fix: ''});
export const warn = (detail: string, fix: string): CheckResult => ({status: 'warn', detail, fix});
export const fail = (detail: string, fix: string): CheckResult => ({status: 'fail', detail, fix});

/** Runs checks in order. Calls `began` with the name of each check that starts, and `found` with each finding. */
export async function examine(
	checks: readonly Check[],
	{began, found}: {readonly began: (check: string) => void; readonly found: (finding: Finding) => void},
): Promise<Finding[]> {
	const findings: Finding[] = [];
	for (const {name, why, run} of checks) {
		began(name);
		// An error in one check must not hide the findings of the others.
		const results = await run().catch((error: unknown) => [
			fail(
				`the check itself failed: ${error instanceof Error ? error.message : String(error)}`,
				'please report it',
			),
		]);
		for (const result of results) {
			const finding = {check: name, why, ...result};
			findings.push(finding);
			found(finding);
		}
	}
	return findings;
}
