import {storeTime} from '../kit/time.ts';
import {reportTokenMs} from '../mail/report.ts';
import {beginAct} from '../resources/audit/store.ts';
import {liveDaemon} from '../store/data-folder/daemon-file.ts';
import type {ResealedStore} from '../store/data-folder/open.ts';
import {createVault, type MasterKeys} from '../store/sealed.ts';
import {CliError} from './fault.ts';
import type {CliCommand} from './program.ts';
import type {Session} from './session.ts';
import {grouped} from './terminal-text.ts';

/** At most this many damaged rows are listed; further ones are only counted. */
const maxListed = 10;

export function secretsCommands(secrets: CliCommand): void {
	secrets
		.verb('rotate', 'Re-encrypt every stored secret with the first key; on SQLite with a new one')
		.sample('mailctl secrets rotate')
		.does(rotate);
}

async function rotate(session: Session): Promise<void> {
	const settings = session.storeSettings();
	const store = await session.store();
	// Checks that the keys are the store's before anything is changed.
	const configured = await session.secrets();
	const {addKeyToFile, resealStore} = await import('../store/data-folder/open.ts');
	const isFile = settings.databaseUrl === null;
	const record = beginAct(session.tools, {action: 'secrets.rotated', workspaceId: null, target: null});
	const keys = isFile ? await addKeyToFile(store, settings, record) : configured;
	const progress = session.progress('secrets');
	const result = await resealStore(store, createVault(keys), record, rows => progress.show(rows, null));
	progress.end();
	showResult(session, keys, result);
	const {damaged} = result;
	if (damaged.length > 0) {
		const more = damaged.length > maxListed ? ` and ${grouped(damaged.length - maxListed)} more` : '';
		throw new CliError(
			'data',
			`these rows cannot be decrypted: ${damaged.slice(0, maxListed).join(', ')}${more}`,
			'rotate the keys of these domains and these webhooks, set the routes of these workspaces again, add these users again, or renew these certificates',
		);
	}
}

function showResult(session: Session, keys: MasterKeys, {rows, damaged}: ResealedStore): void {
	const {databaseUrl, dataDir, tokenLifetime, retentionDays} = session.settings();
	const isFile = databaseUrl === null;
	const former = Object.keys(keys.keys)
		.map(Number)
		.filter(id => id !== keys.current);
	const lifetimeMs = Math.max(tokenLifetime, reportTokenMs(retentionDays));
	const keepUntil = former.length === 0 ? null : storeTime(session.tools.clock.now() + lifetimeMs);
	const total = Object.values(rows).reduce((sum, n) => sum + n);
	const needsRestart = isFile && liveDaemon(dataDir) !== null;
	session.show(
		{
			key_id: keys.current,
			former_key_ids: former,
			resealed: rows,
			total,
			damaged,
			keep_former_until: keepUntil,
			restart: needsRestart,
		},
		() => [
			...(isFile ? [`New key ${keys.current} in ${dataDir}/secrets.json. Back the file up.`] : []),
			`Encrypted ${grouped(total)} secrets with key ${keys.current}: ${grouped(rows.dkim_keys)} DKIM keys, ${grouped(rows.webhook_endpoints)} webhooks, ${grouped(rows.workspaces)} routes, ${grouped(rows.users)} users, ${grouped(rows.smarthosts)} smarthosts, ${grouped(rows.alerts)} alerts, ${grouped(rows.messages)} messages, ${grouped(rows.certificates)} certificates, ${grouped(rows.acme_accounts)} CA accounts.`,
			...(needsRestart ? ['Restart the daemon: until then it creates links with the former key.'] : []),
			...(keepUntil === null
				? ['There is no former key. To rotate, put a new key first on every node, and restart each node.']
				: [
						`Keep ${former.length === 1 ? 'the former key' : `the ${former.length} former keys`} until ${keepUntil.slice(0, 10)}: links in sent messages need it.`,
					]),
		],
	);
}
