import {relative} from 'node:path';
import type {Knex} from 'knex';
import {generateSigningKeys} from '../../compose/dkim.ts';
import {storeTime} from '../../kit/time.ts';
import type {Mode} from '../../mail/message.ts';
import type {ActTools} from '../../mail/operator.ts';
import {
	endFirstStart,
	findFirstStart,
	hasBeenUsed,
	insertFirstStart,
	resumeFirstStart,
} from '../../store/first-starts.ts';
import type {Vault} from '../../store/sealed.ts';
import type {Store} from '../../store/store.ts';
import {addSender} from '../domains/senders-rules.ts';
import {findSender} from '../domains/store.ts';
import {createKey} from '../keys/rules.ts';
import {deleteApiKey, listApiKeys} from '../keys/store.ts';
import {performIn} from '../operation.ts';
import {findTemplate} from '../templates/store.ts';
import {saveTemplate} from '../templates/versions.ts';
import {addUser, everyWorkspace, linkUser} from '../users/rules.ts';
import {findUserByEmail} from '../users/store.ts';
import {createWorkspace} from './rules.ts';
import {readSample, sampleSender, sampleTemplate} from './sample.ts';
import {hasWorkspace} from './store.ts';

/** The contents of a new store, including the keys, which can be shown only now. */
export type Bootstrapped = {
	readonly workspaceId: string;
	/** `null` unless mail is captured, because real delivery needs a sender at the operator's own domain. */
	readonly sender: string | null;
	readonly templateId: string;
	readonly liveKey: string;
	readonly testKey: string;
	/** The token of a sign-in link; `null` if the dashboard is disabled. */
	readonly signInToken: string | null;
};

/** The first user. Whoever starts mailctl has all permissions, and can add the other users. */
export const firstUser = 'admin@localhost';

type FirstStartOptions = {
	/** Whether mail is captured, so that a sender of a reserved domain is sufficient. */
	readonly isCapturing: boolean;
	readonly hasDashboard: boolean;
	/** Whether the caller holds the lock of SQLite's data folder, so that no other process can bootstrap the store. */
	readonly isAlone: boolean;
	/** Whether the file for the first keys exists: an interrupted start has already written them. */
	readonly hasKeysFile: boolean;
};

/** Longer than any start takes. After this time, a process that has not shown its first keys has died. */
const maxStartMs = 60_000;
const firstKeyName = 'first';

/**
 * Prepares an empty store for a first message: a workspace, a template, two keys, the dashboard's first user and, if
 * mail is captured, a verified sender of a reserved domain. If two processes start at once, only one of them does this.
 * The caller shows the result and then calls `endFirstStart`; otherwise the next start shows new keys. Returns `null`
 * if there is nothing to show.
 */
export async function bootstrap(
	store: Store,
	tools: ActTools,
	vault: Vault,
	options: FirstStartOptions,
): Promise<Bootstrapped | null> {
	if (await hasWorkspace(store.reader)) {
		return await resumeBootstrap(store, tools, vault, options);
	}
	const {isCapturing, hasDashboard} = options;
	const [keys, template] = await Promise.all([isCapturing ? generateSigningKeys() : null, readSample()]);

	return await store.writer.transaction(async trx => {
		// The name is unique, so on PostgreSQL a second process waits here until the first one's transaction ends.
		const workspace = (await hasWorkspace(trx)) ? undefined : await createWorkspace(trx, tools, {name: 'default'});
		if (!workspace) {
			return null;
		}
		const workspaceId = workspace.id;
		if (keys) {
			const context = {face: 'cli', workspaceId, mode: 'live', tools, vault: async () => vault, trx} as const;
			const sender = {address: sampleSender, verified: true, newKeys: async () => keys};
			await performIn(addSender, context, sender);
		}
		const saved = await saveTemplate(trx, tools, {workspaceId, ...template, name: sampleTemplate});
		await insertFirstStart(trx, {workspace_id: workspaceId, begun_at: storeTime(tools.clock.now())});
		return {
			workspaceId,
			sender: isCapturing ? sampleSender : null,
			templateId: saved.id,
			...(await createFirstAccess(trx, tools, vault, {workspaceId, hasDashboard})),
		};
	});
}

/**
 * Resumes a first start that was interrupted before it showed its keys. The store holds only their hashes, so they are
 * replaced by new keys and a new link. Returns `null` if the first start has finished or may still be in progress, or
 * if the store has been used since.
 */
async function resumeBootstrap(
	store: Store,
	tools: ActTools,
	vault: Vault,
	{hasDashboard, isAlone, hasKeysFile}: FirstStartOptions,
): Promise<Bootstrapped | null> {
	const interrupted = await findFirstStart(store.reader);
	const now = tools.clock.now();
	if (!interrupted || (!isAlone && now - Date.parse(interrupted.begun_at) < maxStartMs)) {
		return null;
	}
	const workspaceId = interrupted.workspace_id;
	return await store.writer.transaction(async trx => {
		if (!(await resumeFirstStart(trx, interrupted, storeTime(now)))) {
			return null;
		}
		const template = await findTemplate(trx, workspaceId, {name: sampleTemplate});
		if (hasKeysFile || template === undefined || (await hasBeenUsed(trx))) {
			await endFirstStart(trx);
			return null;
		}
		for (const {id, name} of await listApiKeys(trx, workspaceId)) {
			if (name === firstKeyName) {
				await deleteApiKey(trx, workspaceId, id);
			}
		}
		return {
			workspaceId,
			sender: (await findSender(trx, workspaceId, sampleSender)) ? sampleSender : null,
			templateId: template.id,
			...(await createFirstAccess(trx, tools, vault, {workspaceId, hasDashboard})),
		};
	});
}

/** Creates both keys and, for the dashboard, a link for the first user, who is added if missing. */
async function createFirstAccess(
	trx: Knex.Transaction,
	tools: ActTools,
	vault: Vault,
	{workspaceId, hasDashboard}: {readonly workspaceId: string; readonly hasDashboard: boolean},
): Promise<Pick<Bootstrapped, 'liveKey' | 'testKey' | 'signInToken'>> {
	const context = {face: 'cli', mode: 'live', tools, vault: async () => vault, trx} as const;
	const createKeyFor = async (mode: Mode) =>
		(await performIn(createKey, {...context, workspaceId}, {name: firstKeyName, mode})).key;
	const createLink = async () => {
		const user = await findUserByEmail(trx, firstUser);
		const userContext = {...context, workspaceId: null};
		const newUser = {email: firstUser, role: 'admin', workspace: everyWorkspace} as const;
		return user
			? await performIn(linkUser, userContext, {id: user.id})
			: await performIn(addUser, userContext, newUser);
	};
	return {
		liveKey: await createKeyFor('live'),
		testKey: await createKeyFor('test'),
		signInToken: hasDashboard ? (await createLink()).token : null,
	};
}

export type WelcomeInput = Omit<Bootstrapped, 'signInToken'> & {
	/** The link that signs in to the dashboard once; `null` if the dashboard is disabled. */
	readonly link: string | null;
	/** The base URL of the API, without a trailing slash. */
	readonly url: string;
	/** The command that runs the CLI from the current folder (see `commandName`). */
	readonly command: string;
	/** Whether this is written to a file instead of a terminal. */
	readonly isFile: boolean;
};

/**
 * Returns the lines that the first start of a new store prints once, at most 80 columns wide. The curl command can be
 * pasted as is. Its lines break only outside quotes, so a partial selection never leaves a quote open.
 */
export function welcome(input: WelcomeInput): string[] {
	const {sender, liveKey, testKey, command, isFile, link} = input;
	return [
		...(link === null ? [] : signInLines(link, command)),
		...(sender === null
			? ['A new store was created with a workspace (default), a template (sample)', 'and two API keys:']
			: [
					'A new store was created with a workspace (default), a sender',
					`(${sender}), a template (sample) and two API keys:`,
				]),
		'',
		`  live  ${liveKey}`,
		`  test  ${testKey}`,
		'',
		isFile
			? 'Store them elsewhere and delete this file. To create another key:'
			: 'They are shown only once. To create another key:',
		'',
		`  ${command} key create --name app`,
		'',
		...(sender === null ? ownDomainLines(command) : firstMessageLines({...input, sender})),
	];
}

function signInLines(link: string, command: string): string[] {
	return [
		'Open the dashboard with this link. It works once, expires in an hour, and',
		`signs you in as ${firstUser}:`,
		'',
		`  ${link}`,
		'',
		'To get another link:',
		'',
		`  ${command} user link ${firstUser}`,
		'',
	];
}

function firstMessageLines(input: WelcomeInput & {readonly sender: string}): string[] {
	const {sender, templateId, liveKey, url, command} = input;
	return [
		'To send a first message, paste this command:',
		'',
		`curl -sS ${url}/v1/messages \\`,
		`  -H 'Authorization: Bearer ${liveKey}' \\`,
		"  -H 'Content-Type: application/json' \\",
		`  -d '{"from":"${sender}","to":"you@example.org",'\\`,
		`'"templateId":"${templateId}",'\\`,
		`'"data":{"name":"Zoë","url":"https://shop.example/orders/1042",'\\`,
		`'"order":{"number":"1042","currency":"EUR","total":42.9,'\\`,
		`'"placed_at":"2026-06-09T17:30:00Z","items":['\\`,
		`'{"name":"Notebook, ruled","quantity":2,"price":12.5},'\\`,
		`'{"name":"Fountain pen","quantity":1,"price":17.9}]}}}'`,
		'',
		'Then check the result:',
		'',
		`  ${command} message list`,
		`  ${command} message show ID`,
		`  ${command} message raw ID > first.eml`,
		'',
		'Messages are captured in the data folder and not delivered until',
		'MAILCTL_DELIVERY is mx or relay: see README.md, Sending for real.',
	];
}

function ownDomainLines(command: string): string[] {
	return [
		'To send mail, you need a sender at your own domain. Publish the DNS records',
		'that the first command prints, then run the others:',
		'',
		`  ${command} domain add YOUR-DOMAIN`,
		`  ${command} domain verify YOUR-DOMAIN`,
		`  ${command} sender add no-reply@YOUR-DOMAIN`,
		'',
		'For details, see README.md, Sending for real.',
	];
}

/** Returns the command that runs this program again from the same folder. */
export function commandName(script: string, cwd: string): string {
	const path = relative(cwd, script);
	if (path === 'bin/mailctl.js') {
		return 'node bin/mailctl.js';
	}
	return path.startsWith('node_modules') ? 'npx mailctl' : 'mailctl';
}
