import {type ExecFileException, execFile} from 'node:child_process';
import {existsSync} from 'node:fs';
import {appendFile, cp, mkdtemp, readdir, readFile, rm, writeFile} from 'node:fs/promises';
import path from 'node:path';
import process from 'node:process';
import {promisify} from 'node:util';
import test, {type ExecutionContext} from 'ava';
import {foldersBeside} from '../helpers/beside.ts';
import {temporaryFolder} from '../helpers/databases.ts';
import {notRunHere} from '../helpers/not-run-here.ts';
import {findPeer, type PeerRoot} from '../helpers/peers/chroot.ts';

const run = promisify(execFile);
/** `systemctl reload` returns once the signal is sent. */
const untilReloaded = "timeout 30 sh -c 'until journalctl -u mailctl | grep MAILCTL_LOG_LEVEL; do sleep 0.1; done'";
/** Nothing from this machine: what the package needs must be in the package or in Debian. */
const bare = {PATH: '/usr/sbin:/usr/bin:/sbin:/bin', HOME: '/root', DEBIAN_FRONTEND: 'noninteractive'};

/**
 * Boots the system with its own systemd, without a network, and runs a script once the service has started or failed;
 * returns the output of the script. Only the root folder persists.
 */
async function boot(root: string, script: string): Promise<string> {
	const trial = `[Unit]\nAfter=mailctl.service\nSuccessAction=poweroff-force\nFailureAction=poweroff-force
[Service]\nType=oneshot\nStandardOutput=file:/root/said\nStandardError=inherit\nExecStart=/bin/sh -ex /root/script
[Install]\nWantedBy=multi-user.target\n`;
	await writeFile(path.join(root, 'etc/systemd/system/trial.service'), trial);
	await writeFile(path.join(root, 'root/script'), script);
	await rm(path.join(root, 'root/said'), {force: true});
	await run('chroot', [root, 'systemctl', 'enable', 'trial'], {env: bare});
	const machine = path.basename(path.dirname(root)).replaceAll(/[^\w-]/g, '');
	const options = ['--quiet', '--register=no', '--keep-unit', '--private-network', `--machine=${machine}`];
	await run('systemd-nspawn', [...options, '--boot', '-D', root], {timeout: 180_000});
	return await readFile(path.join(root, 'root/said'), 'utf8');
}

/** A copy of the bare system to change and boot. */
async function recipientOf(t: ExecutionContext, debian: PeerRoot): Promise<string> {
	const parent = await mkdtemp(path.resolve(`${debian.folder}-test-`));
	t.teardown(() => rm(parent, {recursive: true, force: true, maxRetries: 10}));
	const root = path.join(parent, 'root');
	await run('cp', ['-a', debian.folder, root]);
	return root;
}

test('the Debian package installs, serves, upgrades, and is removed and purged', async t => {
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

	const root = await recipientOf(t, debian);
	const parent = path.dirname(root);
	const inside = async (...command: string[]) => (await run('chroot', [root, ...command], {env: bare})).stdout;
	await cp(path.join(target, name), path.join(root, 'tmp/first.deb'));

	await inside('dpkg', '-i', '/tmp/first.deb');
	t.regex(await inside('mailctl', '--version'), /^\d+\.\d+\.\d+\n$/);
	t.is(await inside('stat', '-c', '%a %U %G', '/var/lib/mailctl'), '700 mailctl mailctl\n');
	t.is(await inside('stat', '-c', '%a %U %G', '/etc/mailctl/mailctl.env'), '640 root mailctl\n');
	for (const file of ['man/man1/mailctl.1.gz', 'bash-completion/completions/mailctl', 'doc/mailctl/copyright']) {
		t.true(existsSync(path.join(root, 'usr/share', file)), file);
	}
	// A comment and a password: the service and the commands read one file in the same way.
	const settings = '\nMAILCTL_LOG_LEVEL=info   # as it is\nMAILCTL_RELAY_URL=smtp://user:password@smtp.example:587\n';
	await appendFile(path.join(root, 'etc/mailctl/mailctl.env'), settings);

	const first = await boot(
		root,
		`journalctl -u mailctl -o cat
		systemctl is-active mailctl
		mailctl send --from hello@example.com --to ada@example.org --template sample --wait
		sed -i s/LEVEL=info/LEVEL=debug/ /etc/mailctl/mailctl.env
		systemctl reload mailctl
		${untilReloaded}`,
	);
	const [id = ''] = /^msg_\w+$/m.exec(first) ?? [];
	t.regex(id, /^msg_/, first);
	t.regex(first, /"event":"reloaded","changed":\["MAILCTL_LOG_LEVEL"\]/);

	const unpacked = path.join(parent, 'unpacked');
	await run('dpkg-deb', ['-R', path.join(target, name), unpacked]);
	const control = path.join(unpacked, 'DEBIAN/control');
	await writeFile(control, (await readFile(control, 'utf8')).replace(/^Version: .*$/m, 'Version: 99.0.0'));
	await run('dpkg-deb', ['-Znone', '--root-owner-group', '--build', unpacked, path.join(root, 'tmp/second.deb')]);
	await inside('dpkg', '-i', '/tmp/second.deb');
	t.regex(await readFile(path.join(root, 'etc/mailctl/mailctl.env'), 'utf8'), /^MAILCTL_LOG_LEVEL=debug /m);
	t.regex(await boot(root, `systemctl is-active mailctl; mailctl message show ${id}`), /^active$.*delivered/ms);

	await inside('dpkg', '-r', 'mailctl');
	t.false(existsSync(path.join(root, 'usr/lib/mailctl')), 'nothing of the program is left');
	t.true(existsSync(path.join(root, 'var/lib/mailctl/mailctl.db')), 'the mail is kept');
	await inside('dpkg', '-P', 'mailctl');
	t.false(existsSync(path.join(root, 'var/lib/mailctl')));
	t.false(existsSync(path.join(root, 'etc/mailctl')));
});

test('the commands of docs/guide/systemd.md install, start, watch, change and upgrade the service', async t => {
	const debian = await findPeer(t, 'debian');
	if (debian === null) {
		return;
	}
	const root = await recipientOf(t, debian);
	const place = (file: string) => path.join(root, file);
	const [{filename}] = JSON.parse(
		(await run('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', place('root')])).stdout,
	);
	const page = await readFile('docs/guide/systemd.md', 'utf8');
	const commands = [...page.matchAll(/^```sh\n([\s\S]*?)^```/gm)]
		.flatMap(([, block]) => `${block}`.split('\n'))
		.map(line => line.replace(/\s{2,}#.*/, ''))
		.filter(line => line !== '' && line !== 'npm ci && npm pack');
	// What the machine has: Node.js and its libraries. The bare system has no npm to compile sqlite3 and no sudo.
	await cp(process.execPath, place('usr/bin/node'));
	for (const folder of await foldersBeside()) {
		await cp(folder, place(`root/${folder}`), {recursive: true});
	}
	const shim = async (name: string, text: string) => {
		await writeFile(place(`usr/bin/${name}`), `#!/bin/sh -e\n${text}\n`, {mode: 0o755});
	};
	await shim('npm', 'cp -a /root/node_modules .');
	await shim('sudo', 'if [ "$1" = -u ]; then shift; user=$1; shift; exec runuser -u "$user" -- "$@"; fi; exec "$@"');
	await shim('sudoedit', 'sed -i s/^#MAILCTL_LOG_LEVEL=.*/MAILCTL_LOG_LEVEL=debug/ "$1"');

	const said = await boot(
		root,
		[
			'cd /root',
			...commands.flatMap(line => [
				`${line} || echo "exit $? of: ${line}"`,
				...(line.includes('systemctl reload') ? [untilReloaded] : []),
			]),
		].join('\n'),
	);
	t.deepEqual(said.match(/^exit .*$/gm) ?? [], [], said);
	t.regex(said, /^msg_\w+$/m);
	t.regex(said, /key_live_/);
	t.regex(said, /Active: active \(running\)/);
	t.regex(said, /"event":"reloaded","changed":\["MAILCTL_LOG_LEVEL"\]/);
	t.true(existsSync(place(`root/${filename}`)));
});

test('systemd rates the exposure of the unit 2.5 or less', async t => {
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
