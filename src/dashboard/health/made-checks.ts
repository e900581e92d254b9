import {liveDaemon} from '../../data-folder/daemon-file.ts';
import {inspect} from '../../doctor/doctor.ts';
import type {Finding} from '../../doctor/finding.ts';
import type {DashboardParts} from '../parts.ts';

/** What the checks found, and when; milliseconds. */
export type Found = {readonly at: number; readonly findings: readonly Finding[]};

const freshMs = 3_600_000;

/** The checks of `mailctl doctor`, made by the daemon. They take seconds, and ask others. */
export function createMadeChecks({settings, live, version, process, tools}: DashboardParts) {
	let running: Promise<Found> | null = null;
	let newest: Found | null = null;

	/** Makes them now. Those who ask while they run get the same findings. */
	function look(): Promise<Found> {
		const returnPath = process.shown().find(row => row.name === 'MAILCTL_RETURN_PATH_DOMAIN');
		running ??= inspect(
			{
				settings: {...settings, ...live()},
				version,
				daemon: liveDaemon(settings.dataDir),
				returnPathChosen: returnPath !== undefined && returnPath.source !== 'default',
				tools,
			},
			{began: () => undefined, found: () => undefined},
		)
			.then(findings => {
				newest = {at: tools.clock.now(), findings};
				return newest;
			})
			.finally(() => {
				running = null;
			});
		return running;
	}

	return {
		look,
		/** What they found last. Where that is an hour ago, or never, they are made for those who ask next; null: not yet. */
		last(): Found | null {
			if (newest === null || tools.clock.now() - newest.at > freshMs) {
				look().catch(() => undefined); // The page of the checks shows the error.
			}
			return newest;
		},
	};
}

export type MadeChecks = ReturnType<typeof createMadeChecks>;
