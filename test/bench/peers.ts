import {spawnSync} from 'node:child_process';
import type {AccountedSink} from './accounted-sink.ts';
import {accountOf} from './books.ts';

type PeerFigures = {readonly peer: string; readonly end_to_end_per_s: number} & Readonly<Record<string, number>>;

/** Debian's Postfix, not signing and with OpenDKIM; exit 69 or 77: not installed, not root. */
const own: ReadonlyArray<readonly string[]> = [
	['test/bench/peers/postfix.sh'],
	['test/bench/peers/postfix.sh', '--dkim'],
];
const notRunHere = new Set([69, 77]);

type Asked = {
	readonly messages: number;
	readonly workload: string;
	/** A sink for each run of ours, which says what became of the mails. */
	readonly startSink?: () => Promise<AccountedSink>;
};

/**
 * Runs other mail servers with the same workload. A script of one's own prints one JSON line with `peer`,
 * `inject_per_s` and `end_to_end_per_s` (`cpu_us` and others, if it has them) for `--json --messages N --workload W`.
 */
export async function* runPeers(scripts: readonly string[], {messages, workload, startSink}: Asked) {
	for (const [script = '', ...rest] of [...own, ...scripts.map(script => [script])]) {
		const sink = scripts.includes(script) ? undefined : await startSink?.();
		const at = sink ? ['--sink', `127.0.0.1:${sink.port}`] : [];
		const args = [...rest, ...at, '--json', '--messages', String(messages), '--workload', workload];
		const ended = spawnSync(script, args, {stdio: ['ignore', 'pipe', 'pipe'], encoding: 'utf8'});
		const entries = await sink?.entries();
		await sink?.stop();
		if (ended.status === 0) {
			const figures = JSON.parse(ended.stdout) as PeerFigures;
			yield {...figures, ...(entries && accountOf(messages, entries))};
		} else if (notRunHere.has(ended.status ?? 0)) {
			console.log(`not run here: ${ended.stderr.trim()}`);
		} else {
			throw new Error(`${script}: exit ${ended.status}, ${ended.stderr}`);
		}
	}
}
