import type {DaemonFile} from '../daemon/daemon-file.ts';
import {type Check, fail, ok} from './finding.ts';

const answerMs = 5000;

/** Whether the daemon of this folder, if one runs, is ready. */
export function daemonCheck(daemon: DaemonFile | null, version: string): Check {
	return {
		name: 'daemon',
		why: 'Mail is taken and sent only while the daemon runs and its store can be written.',
		async look() {
			if (daemon === null) {
				return [ok('none runs on this data folder; mailctl serve starts one')];
			}
			const who = `process ${daemon.pid}, version ${daemon.version}`;
			if (daemon.version !== version) {
				return [fail(`${who}, and this is ${version}`, 'restart the daemon')];
			}
			if (daemon.http === null) {
				return [ok(`${who}, without HTTP`)];
			}
			const status = await fetch(`${daemon.http}/readyz`, {signal: AbortSignal.timeout(answerMs)}).then(
				answer => answer.status,
				() => null,
			);
			return [
				status === 200
					? ok(`${who}, ready at ${daemon.http}`)
					: fail(`${who} is not ready (${status ?? 'no answer'} from ${daemon.http}/readyz)`, 'read its log'),
			];
		},
	};
}
