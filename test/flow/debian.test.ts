import {type ExecFileException, execFile, spawn} from 'node:child_process';
import {once} from 'node:events';
import {existsSync} from 'node:fs';
import {appendFile, cp, mkdtemp, readdir, readFile, rm, writeFile} from 'node:fs/promises';
import path from 'node:path';
import process from 'node:process';
import {promisify} from 'node:util';
import test, {type ExecutionContext} from 'ava';
import {temporaryFolder} from '../helpers/databases.ts';
import {notRunHere} from '../helpers/not-run-here.ts';
import {findPeer} from '../helpers/peers/chroot.ts';
import {waitFor} from '../helpers/wait.ts';

const run = promisify(execFile);
/** Nothing of this machine's: what the package needs must be in the package or in Debian. */
const bare = {PATH: '/usr/sbin:/usr/bin:/sbin:/bin', HOME: '/root', DEBIAN_FRONTEND: 'noninteractive'};

/** The service as its unit starts it: the same user, folder, environment file and command. */
async function startService(t: ExecutionContext, root: string) {
	const unit = await readFile(path.join(root, 'lib/systemd/system/mailctl.service'), 'utf8');
	const [, command = ''] = /^ExecStart=(.*)$/m.exec(unit) ?? [];
	const user = ['setpriv', '--reuid=mailctl', '--regid=mailctl', '--init-groups'];
	const settings = 'set -a; . /etc/mailctl/mailctl.env; cd /var/lib/mailctl';
	const child = spawn('chroot', [root, ...user, 'sh', '-ec', `${settings}; exec ${command}`], {
		env: bare,
		stdio: ['ignore', 'ignore', 'pipe'],
	});
	let said = '';
	child.stderr.on('data', chunk => {
		said += chunk;
	});
	const ended = once(child, 'exit');
	t.teardown(() => child.kill('SIGKILL'));
	const file = path.join(root, 'var/lib/mailctl/daemon.json');
	await waitFor('the service', () => {
		if (child.exitCode !== null) {
			throw new Error(`the service ended with ${child.exitCode}: ${said}`);
		}
		return existsSync(file);
	});
	return {
		async stop() {
			child.kill('SIGTERM');
			t.deepEqual(await ended, [0, null]);
		},
	};
}

test('the Debian package is installed, serves, is upgraded, removed and purged', async t => {
	const debian = await findPeer(t, 'debian');
	if (debian === null) {
		return;
	}
	const target = await temporaryFolder(t);
	try {
		await run(process.execPath, ['scripts/deb.js', target], {maxBuffer: 2 ** 26});
	} catch (error) {
		if (/ENOTFOUND|ECONNREFUSED|EAI_AGAIN|ENOENT/.test(`${(error as ExecFileException).stderr}`)) {
			notRunHere(t, 'Node.js for the package cannot be fetched, or there is no dpkg-deb');
			return;
		}
		throw error;
	}
	const [name = ''] = await readdir(target);
	t.regex(name, /^mailctl_[\d.]+_amd64\.deb$|^mailctl_[\d.]+_arm64\.deb$/);

	const parent = await mkdtemp(path.resolve(`${debian.folder}-test-`));
	t.teardown(() => rm(parent, {recursive: true, force: true, maxRetries: 10}));
	const root = path.join(parent, 'root');
	await run('cp', ['-a', debian.folder, root]);
	const inside = async (...command: string[]) => (await run('chroot', [root, ...command], {env: bare})).stdout;
	await cp(path.join(target, name), path.join(root, 'tmp/first.deb'));

	await inside('dpkg', '-i', '/tmp/first.deb');
	t.regex(await inside('mailctl', '--version'), /^\d+\.\d+\.\d+\n$/);
	t.is(await inside('stat', '-c', '%a %U %G', '/var/lib/mailctl'), '700 mailctl mailctl\n');
	t.is(await inside('stat', '-c', '%a %U %G', '/etc/mailctl/mailctl.env'), '640 root mailctl\n');
	for (const file of ['man/man1/mailctl.1.gz', 'bash-completion/completions/mailctl', 'doc/mailctl/copyright']) {
		t.true(existsSync(path.join(root, 'usr/share', file)), file);
	}
	await appendFile(path.join(root, 'etc/mailctl/mailctl.env'), '\nMAILCTL_HTTP_LISTEN=127.0.0.1:0\n');

	const service = await startService(t, root);
	const send = ['send', '--from', 'hello@example.com', '--to', 'ada@example.org', '--template', 'sample', '--wait'];
	const id = (await inside('mailctl', ...send)).trim();
	t.regex(id, /^msg_/);
	await service.stop();

	const unpacked = path.join(parent, 'unpacked');
	await run('dpkg-deb', ['-R', path.join(target, name), unpacked]);
	const control = path.join(unpacked, 'DEBIAN/control');
	await writeFile(control, (await readFile(control, 'utf8')).replace(/^Version: .*$/m, 'Version: 99.0.0'));
	await run('dpkg-deb', ['-Znone', '--root-owner-group', '--build', unpacked, path.join(root, 'tmp/second.deb')]);
	await inside('dpkg', '-i', '/tmp/second.deb');
	t.regex(await readFile(path.join(root, 'etc/mailctl/mailctl.env'), 'utf8'), /^MAILCTL_HTTP_LISTEN=127\.0\.0\.1:0$/m);
	const upgraded = await startService(t, root);
	t.regex(await inside('mailctl', 'message', 'show', id), /delivered/);
	await upgraded.stop();

	await inside('dpkg', '-r', 'mailctl');
	t.false(existsSync(path.join(root, 'usr/lib/mailctl')), 'nothing of the program is left');
	t.true(existsSync(path.join(root, 'var/lib/mailctl/mailctl.db')), 'the mail is kept');
	await inside('dpkg', '-P', 'mailctl');
	t.false(existsSync(path.join(root, 'var/lib/mailctl')));
	t.false(existsSync(path.join(root, 'etc/mailctl')));
});

test('the unit is confined: systemd calls its exposure 2.5 or less', async t => {
	const options = ['security', '--offline=true', '--threshold=25', '--no-pager', 'config/mailctl.service'];
	const {stdout, code} = await run('systemd-analyze', options).then(
		({stdout}) => ({stdout, code: 0 as number | string | null | undefined}),
		(error: ExecFileException) => ({stdout: `${error.stdout}`, code: error.code}),
	);
	if (code === 'ENOENT') {
		t.log('not run here: there is no systemd-analyze');
		t.pass();
		return;
	}
	t.log(stdout.trim().split('\n').at(-1));
	t.is(code, 0);
});
