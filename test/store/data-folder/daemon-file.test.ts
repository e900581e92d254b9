import {execFileSync, spawn} from 'node:child_process';
import {once} from 'node:events';
import {mkdtempSync, readdirSync, readFileSync, statSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import process from 'node:process';
import test from 'ava';
import {
	liveDaemon,
	readDaemonFile,
	removeDaemonFile,
	writeDaemonFile,
} from '../../../src/store/data-folder/daemon-file.ts';

const folder = () => mkdtempSync(join(tmpdir(), 'mailctl-daemon-'));
const content = {
	pid: process.pid,
	http: 'http://127.0.0.1:8125',
	admin: 'http://127.0.0.1:8126',
	https: null,
	redirect: null,
	inbound: null,
	submission: null,
	version: '1.2.3',
	roles: ['api', 'deliver'],
};

test('reads back what was written, also from other processes of this user', t => {
	const dataDir = folder();
	writeDaemonFile(dataDir, {...content, pid: 1});
	writeDaemonFile(dataDir, content);
	t.deepEqual(JSON.parse(readFileSync(join(dataDir, 'daemon.json'), 'utf8')), content);
	t.deepEqual(readdirSync(dataDir), ['daemon.json']);
	t.is(statSync(join(dataDir, 'daemon.json')).mode & 0o777, 0o600);
	t.deepEqual(liveDaemon(dataDir), content);
});

test('ignores a FIFO in place of the file without blocking on it', t => {
	const dataDir = folder();
	execFileSync('mkfifo', [join(dataDir, 'daemon.json')]);
	t.is(readDaemonFile(dataDir), null);
	writeDaemonFile(dataDir, content);
	t.deepEqual(readDaemonFile(dataDir), content);
});

test('a daemon removes only its own file', t => {
	const dataDir = folder();
	writeDaemonFile(dataDir, content);
	removeDaemonFile(dataDir, 1);
	t.deepEqual(readDaemonFile(dataDir), content);
	removeDaemonFile(dataDir, process.pid);
	t.is(readDaemonFile(dataDir), null);
	removeDaemonFile(dataDir, process.pid);
});

test('distinguishes the file of a dead daemon from that of a running one', async t => {
	const dataDir = folder();
	const child = spawn(process.execPath, ['-e', 'process.stdin.resume()'], {stdio: ['pipe', 'ignore', 'ignore']});
	await once(child, 'spawn');
	writeDaemonFile(dataDir, {...content, pid: child.pid as number});
	t.truthy(liveDaemon(dataDir));
	child.kill('SIGKILL');
	await once(child, 'exit');
	t.is(liveDaemon(dataDir), null);
	t.truthy(readDaemonFile(dataDir));
});

for (const text of ['', '{', 'null', '[]', '{"pid":"1","version":"1"}', '{"pid":-1,"version":"1"}', '{"pid":1}']) {
	test(`refuses a malformed daemon file: ${text}`, t => {
		const dataDir = folder();
		writeFileSync(join(dataDir, 'daemon.json'), text);
		t.is(liveDaemon(dataDir), null);
	});
}
