import {readFileSync} from 'node:fs';
import path from 'node:path';
import test from 'ava';
import {openStore} from '../../../src/store/store.ts';
import {prepareProgram} from '../../helpers/daemon.ts';
import {scaled} from '../../helpers/load-scale.ts';
import {loadReports} from '../../helpers/report-load.ts';
import {inboundPort, insertDeliveredIn} from '../../helpers/sent-recipients.ts';
import {waitFor} from '../../helpers/wait.ts';

const domain = 'bounces.shop.example';
const reports = scaled(30_000);

test('accepts many reports over ten connections without losing any, in constant memory', async t => {
	t.timeout(600_000);
	const program = await prepareProgram(t, {
		MAILCTL_INBOUND_LISTEN: '127.0.0.1:0',
		MAILCTL_RETURN_PATH_DOMAIN: domain,
		MAILCTL_HOSTNAME: 'mail.shop.example',
		MAILCTL_LOG_LEVEL: 'warn',
	});
	await program.cliBytes('init');
	const dataDir = path.join(program.folder, 'data');
	const addresses = Array.from({length: reports}, (_, n) => `user${n}@example.net`);
	const recipients = await insertDeliveredIn(dataDir, addresses, domain);
	const daemon = await program.serve();
	const store = await openStore({file: path.join(dataDir, 'mailctl.db')});
	t.teardown(() => store.close());
	const countOf = async (where: object = {}) =>
		Number((await store.reader('inbound').where(where).count('* as n'))[0]?.n);
	const load = (from: number, to: number) =>
		loadReports({
			port: inboundPort(dataDir),
			connections: 10,
			recipients: recipients.slice(from, to),
			perSecond: null,
		});
	const allRead = () => waitFor('all are read', async () => (await countOf({read_at: null})) === 0, 300_000);

	// What it needs once: code, caches, pools.
	const first = await load(0, reports / 3);
	await allRead();
	const before = residentMb(daemon.pid);
	const second = await load(reports / 3, reports);
	await allRead();
	const after = residentMb(daemon.pid);
	t.deepEqual([...first.surprises, ...second.surprises], []);
	t.is(first.taken + second.taken, reports);
	t.is(await countOf(), reports);
	t.true(after < before + 60, `${before} MB before, ${after} MB after`);
	t.log(
		`${Math.round(((reports * 2000) / 3 / second.ms) | 0)} a second, p99 ${Math.round(second.p99)} ms, ${before} → ${after} MB`,
	);
	t.is(await daemon.stop(), 0);
});

function residentMb(pid: number): number {
	const status = readFileSync(`/proc/${pid}/status`, 'utf8');
	return Math.round(Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024);
}
