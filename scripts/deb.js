// Builds mailctl_VERSION_ARCH.deb: the program, its libraries in the tested versions, and its own Node.js
// (docs/guide/debian.md). Run `npm ci` before. Requires dpkg-deb.
import {execFileSync} from 'node:child_process';
import {chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import path from 'node:path';
import process from 'node:process';
import {gzipSync} from 'node:zlib';
import {foldersBeside} from './beside.js';

const {version, description} = JSON.parse(readFileSync('package.json', 'utf8'));
/** The npm packages contain the builds from nodejs.org. npm verifies downloads against the registry's checksum. */
const nodeVersion = '24.21.0';
const architectures = {x64: 'amd64', arm64: 'arm64'};
const architecture = architectures[process.arch];
const [target = 'dist'] = process.argv.slice(2);

const run = (command, args, options = {}) =>
	execFileSync(command, args, {
		encoding: 'utf8',
		maxBuffer: 2 ** 26,
		stdio: ['ignore', 'pipe', 'inherit'],
		...options,
	});

const work = mkdtempSync(path.join(tmpdir(), 'mailctl-deb-'));
const root = path.join(work, 'root');
const library = path.join(root, 'usr/lib/mailctl');

/** The files that sqlite3 was built from. */
const sources = /^node_modules\/sqlite3\/(deps|src|build\/Release\/obj\b.*|build\/Release\/.*\.a)$/;

function write(file, text, mode = 0o644) {
	const place = path.join(root, file);
	mkdirSync(path.dirname(place), {recursive: true});
	writeFileSync(place, text);
	chmodSync(place, mode);
}

/** Copies what `npm pack` would include, and the libraries needed at runtime. */
function copyProgram() {
	const [{files}] = JSON.parse(
		run('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {stdio: ['ignore', 'pipe', 'ignore']}),
	);
	for (const {path: file} of files) {
		cpSync(file, path.join(library, file));
	}
	// A nested library is copied with the one that contains it.
	for (const folder of foldersBeside().filter(folder => folder.lastIndexOf('node_modules') === 0)) {
		cpSync(folder, path.join(library, folder), {recursive: true, filter: source => !sources.test(source)});
	}
}

function addNode() {
	const packed = run('npm', [
		'pack',
		`node-linux-${process.arch}@${nodeVersion}`,
		'--pack-destination',
		work,
		'--silent',
	]).trim();
	run('tar', ['-xzf', path.join(work, packed), '-C', work, 'package/bin/node', 'package/LICENSE']);
	cpSync(path.join(work, 'package/bin/node'), path.join(library, 'node'));
	chmodSync(path.join(library, 'node'), 0o755);
	cpSync(path.join(work, 'package/LICENSE'), path.join(root, 'usr/share/doc/mailctl/LICENSE.node'));
	// Stores V8's compiled code beside the program, where the service's user cannot write.
	run(path.join(library, 'node'), [path.join(library, 'bin/mailctl.js'), '--version']);
}

function addSystemFiles() {
	const unit = readFileSync('config/mailctl.service', 'utf8')
		// Remove the head, which explains manual installation.
		.replace(/^(#.*\n)+/, '')
		.replace('file:///opt/mailctl/docs/reference/settings.md', 'man:mailctl(1)')
		.replace(
			'/usr/bin/env node -- /opt/mailctl/bin/mailctl.js',
			'/usr/lib/mailctl/node -- /usr/lib/mailctl/bin/mailctl.js',
		);
	if (unit.includes('/opt/')) {
		throw new Error('config/mailctl.service names /opt in a place that scripts/deb.js does not know');
	}
	write('lib/systemd/system/mailctl.service', unit);
	const settings = readFileSync('config/mailctl.env.example', 'utf8')
		.replace(
			/^#.*\n#.*\n/,
			'# Settings of mailctl, at their defaults; `systemctl restart mailctl` after a change.\n',
		)
		.replace('#MAILCTL_DATA_DIR=./data', 'MAILCTL_DATA_DIR=/var/lib/mailctl');
	write('etc/mailctl/mailctl.env', settings, 0o640);
	write('usr/bin/mailctl', readFileSync('scripts/deb/mailctl'), 0o755);
	write('usr/share/doc/mailctl/copyright', readFileSync('LICENSE'));
	write('usr/share/doc/mailctl/changelog.gz', gzipSync(readFileSync('CHANGELOG.md'), {level: 9}));
	write('usr/share/man/man1/mailctl.1.gz', gzipSync(readFileSync('docs/reference/mailctl.1'), {level: 9}));
	const completions = {
		bash: 'bash-completion/completions/mailctl',
		zsh: 'zsh/vendor-completions/_mailctl',
		fish: 'fish/vendor_completions.d/mailctl.fish',
	};
	for (const [shell, file] of Object.entries(completions)) {
		write(`usr/share/${file}`, run(process.execPath, ['bin/mailctl.js', 'completion', shell]));
	}
}

function addControl() {
	const size = Number(run('du', ['-sk', root]).split('\t')[0]);
	write(
		'DEBIAN/control',
		`Package: mailctl
Version: ${version}
Architecture: ${architecture}
Maintainer: mailctl maintainers <root@localhost>
Installed-Size: ${size}
Depends: adduser, init-system-helpers (>= 1.54~), libc6 (>= 2.28), libstdc++6 (>= 9)
Recommends: ca-certificates, systemd
Section: mail
Priority: optional
Description: self-hosted transactional email service
 ${description}.
`,
	);
	write('DEBIAN/conffiles', '/etc/mailctl/mailctl.env\n');
	for (const script of ['postinst', 'prerm', 'postrm']) {
		write(`DEBIAN/${script}`, readFileSync(`scripts/deb/${script}`), 0o755);
	}
}

try {
	if (!architecture) {
		throw new Error(`there is no package for ${process.arch}: use x64 or arm64`);
	}
	copyProgram();
	addNode();
	addSystemFiles();
	addControl();
	mkdirSync(target, {recursive: true});
	const file = path.join(target, `mailctl_${version}_${architecture}.deb`);
	run('dpkg-deb', ['--root-owner-group', '-Zzstd', '--build', root, file]);
	process.stdout.write(`${file}\n`);
} finally {
	rmSync(work, {recursive: true, force: true});
}
