import {spawnSync} from 'node:child_process';

type PeerFigures = {readonly peer: string; readonly inject_per_s: number; readonly end_to_end_per_s: number};

/** Debian's Postfix, not signing and with OpenDKIM; exit 69 or 77: not installed, not root. */
const own: ReadonlyArray<readonly string[]> = [
	['test/bench/peers/postfix.sh'],
	['test/bench/peers/postfix.sh', '--dkim'],
];
const notRunHere = new Set([69, 77]);

/**
 * Runs other mail servers with the same workload. A script of one's own prints one JSON line with `peer`, `inject_per_s` and
 * `end_to_end_per_s` for `--json --messages N --workload W`.
 */
export function* runPeers(
	scripts: readonly string[],
	{messages, workload}: {readonly messages: number; readonly workload: string},
): Generator<PeerFigures> {
	for (const [script = '', ...rest] of [...own, ...scripts.map(script => [script])]) {
		const args = [...rest, '--json', '--messages', String(messages), '--workload', workload];
		const ended = spawnSync(script, args, {stdio: ['ignore', 'pipe', 'pipe'], encoding: 'utf8'});
		if (ended.status === 0) {
			const {peer, inject_per_s, end_to_end_per_s} = JSON.parse(ended.stdout) as PeerFigures;
			yield {peer, inject_per_s, end_to_end_per_s};
		} else if (notRunHere.has(ended.status ?? 0)) {
			console.log(`not run here: ${ended.stderr.trim()}`);
		} else {
			throw new Error(`${script}: exit ${ended.status}, ${ended.stderr}`);
		}
	}
}
