import {mkdtempSync} from 'node:fs';
import {rm} from 'node:fs/promises';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import test from 'ava';
import {loadSettings} from '../../src/config/settings.ts';
import {startDaemon} from '../../src/daemon/daemon.ts';
import {createLog} from '../../src/daemon/log.ts';
import {readDaemonFile} from '../../src/store/data-folder/daemon-file.ts';
import {openData} from '../../src/store/data-folder/open.ts';

test('writes daemon.json before logging that it listens', async t => {
	const folder = mkdtempSync(join(tmpdir(), 'mailctl-daemon-'));
	t.teardown(() => rm(folder, {recursive: true, force: true, maxRetries: 10}));
	const env = {MAILCTL_DATA_DIR: join(folder, 'data'), MAILCTL_HTTP_LISTEN: '127.0.0.1:0'};
	const loaded = loadSettings({env, cwd: folder, hostname: 'mail.example.com', cpus: 1});
	if (!loaded.ok) {
		t.fail(loaded.problems.join('\n'));
		return;
	}
	const {settings} = loaded;
	let found: string | null | undefined;
	const destination = {
		write(line: string) {
			if (JSON.parse(line).event === 'listening') {
				found = readDaemonFile(settings.dataDir)?.http;
			}
		},
	};
	const held = await openData(settings, {asRoot: true});
	const log = createLog({level: 'info', format: 'json', hasColors: false, destination});
	const daemon = await startDaemon({settings, version: '1.2.3', held, log, isReturnPathDomainSet: false});
	await daemon.stop();
	t.is(found, daemon.http);
});
