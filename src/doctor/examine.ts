import {type Check, type Finding, fail} from './finding.ts';

/** Runs checks one after the other and tells each finding as it comes; `began` hears the name of the next check. */
export async function examine(
	checks: readonly Check[],
	{began, found}: {readonly began: (check: string) => void; readonly found: (finding: Finding) => void},
): Promise<Finding[]> {
	const findings: Finding[] = [];
	for (const {name, why, look} of checks) {
		began(name);
		// What one check stumbles over must not hide what the others find.
		const results = await look().catch((error: unknown) => [
			fail(`the check itself failed: ${error instanceof Error ? error.message : String(error)}`, 'please report it'),
		]);
		for (const one of results) {
			const finding = {check: name, why, ...one};
			findings.push(finding);
			found(finding);
		}
	}
	return findings;
}
