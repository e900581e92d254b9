import type {Knex} from 'knex';
import {addEndpoint, changeEndpoint, removeEndpoint, setEndpointActive} from '../admin/webhooks.ts';
import {changeWorkspace, createWorkspace, type WorkspaceInput} from '../admin/workspaces.ts';
import {generateSigningKeys} from '../compose/dkim.ts';
import {maskPasswords} from '../config/parsers.ts';
import {addDomain, removeDomain} from '../domains/domains.ts';
import {addSender, changeSender, prepareKeys, removeSender, type SenderChange} from '../domains/senders.ts';
import type {ActTools} from '../mail/operator.ts';
import {hasPassword, withPasswords} from '../mail/route.ts';
import {changeKey, createKey, revokeKey} from '../ops/keys.ts';
import {performIn, Refused, type Scene} from '../ops/operation.ts';
import {createTopic, removeTopic, renameTopic} from '../ops/topics.ts';
import {findDomain, findSender, type Sender} from '../store/domains.ts';
import type {Vault} from '../store/sealed.ts';
import {findWorkspaceByName, type Workspace} from '../store/workspaces.ts';
import type {Change} from './diff.ts';
import {addressOf, type Settings, type WantedWorkspace} from './document.ts';

type ApplyParts = {
	readonly reader: Knex;
	readonly write: <Result>(work: (trx: Knex.Transaction) => Promise<Result>) => Promise<Result>;
	readonly tools: ActTools;
	readonly vault: Vault;
};

/** What a change made, with the secrets that are shown this one time. Undefined: the store changed meanwhile. */
export type Made = {readonly id?: string; readonly key?: string; readonly signing_secret?: string} | undefined;

type Of<K> = Extract<Change, {readonly kind: K}>;

/** Does one change, by the operations of its noun. */
export async function perform(parts: ApplyParts, change: Change): Promise<Made> {
	return await performChange(parts, change).catch(undefinedIfRefused);
}

function undefinedIfRefused(error: unknown): undefined {
	if (!(error instanceof Refused)) {
		throw error;
	}
}

async function performChange(parts: ApplyParts, change: Change): Promise<Made> {
	const {reader, write, tools, vault} = parts;
	if (change.kind === 'workspace' && change.action === 'add') {
		const input = {...inputOf(change.wanted, vault), name: change.name};
		return await write(trx => createWorkspace(trx, tools, input));
	}
	const workspaceId = (await findWorkspaceByName(reader, change.workspace))?.id;
	if (workspaceId === undefined) {
		return undefined;
	}
	const scene = {face: 'apply', workspaceId, mode: 'live', tools, vault: async () => vault} as const;
	switch (change.kind) {
		case 'workspace':
			return await write(trx => changeWorkspace(trx, tools, workspaceId, inputOf(change.wanted, vault)));
		case 'domain':
			return await performDomain(parts, workspaceId, change);
		case 'sender':
			return await performSender(parts, workspaceId, change);
		case 'topic':
			return await write(trx => performTopic({...scene, trx}, change));
		case 'webhook':
			return await write(trx => performWebhook(trx, {tools, vault}, workspaceId, change));
		case 'key':
			return await write(trx => performKey({...scene, trx}, change));
	}
}

/**
 * The workspace with a route that it has already written as the state has it: with masked passwords. Whether a password is
 * another one only the vault can say.
 */
export function withKnownRoute(wanted: WantedWorkspace, row: Workspace | undefined, vault: Vault): WantedWorkspace {
	const {route} = wanted.settings ?? {};
	if (!row?.route || !route || !hasPassword(route)) {
		return wanted;
	}
	const stored = withPasswords(row.route, sealed => vault.open(row.id, sealed));
	const isKnown = stored === withPasswords(route, password => password);
	return isKnown ? {...wanted, settings: {...wanted.settings, route: maskPasswords(route)}} : wanted;
}

/** Absent fields stay as they are. */
function inputOf(settings: Partial<Settings>, vault: Vault): Partial<WorkspaceInput> {
	const {branding, route} = settings;
	const {name, logo_url: logoUrl, accent, support_email: supportEmail} = branding ?? {};
	return defined({
		locale: settings.locale,
		timezone: settings.timezone,
		monthlyQuota: settings.monthly_quota,
		queueLifetime: settings.queue_lifetime,
		sourcePool: settings.source_pool,
		route: typeof route === 'string' ? {text: route, vault} : route,
		trackOpens: settings.track_opens,
		trackClicks: settings.track_clicks,
		branding: branding && defined({name, logoUrl, accent, supportEmail}),
	});
}

type Defined<Values> = {[Name in keyof Values]?: Exclude<Values[Name], undefined>};

function defined<Values extends object>(values: Values): Defined<Values> {
	return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as Defined<Values>;
}

async function performDomain(
	{reader, write, tools, vault}: ApplyParts,
	workspaceId: string,
	change: Of<'domain'>,
): Promise<Made> {
	if (change.action === 'add') {
		const keys = await generateSigningKeys();
		const {name, return_path_domain: returnPathDomain = null} = change.wanted;
		const added = await write(trx => addDomain(trx, tools, vault, {workspaceId, name, returnPathDomain, keys}));
		return added?.domain;
	}
	const row = await findDomain(reader, workspaceId, change.name);
	return row && (await write(trx => removeDomain(trx, tools, row))) === undefined ? {} : undefined;
}

async function performSender(
	{reader, write, tools, vault}: ApplyParts,
	workspaceId: string,
	change: Of<'sender'>,
): Promise<Made> {
	const address = addressOf(change.name);
	if (!address) {
		return undefined;
	}
	if (change.action === 'remove') {
		return (await write(trx => removeSender(trx, tools, workspaceId, {addressKey: address.key}))) ? {} : undefined;
	}
	const {name, verified, active} = change.fields;
	const switched: SenderChange[] = active ? [active.to ? 'enable' : 'disable'] : [];
	if (change.action === 'add') {
		const newKeys = await prepareKeys(reader, workspaceId, address.domain);
		const input = {workspaceId, address, name: change.wanted.name ?? null, verified: change.wanted.verified ?? false};
		return await write(async trx => {
			const added = await addSender(trx, tools, vault, {...input, newKeys});
			return added && (await changeInTurn(trx, tools, added, switched));
		});
	}
	const steps: SenderChange[] = [
		...(name ? [{name: change.wanted.name ?? null}] : []),
		...(verified ? [verified.to ? ('verify' as const) : ('unverify' as const)] : []),
		...switched,
	];
	return await write(async trx => {
		const sender = await findSender(trx, workspaceId, address.key);
		return sender && (await changeInTurn(trx, tools, sender, steps));
	});
}

async function changeInTurn(
	trx: Knex.Transaction,
	tools: ActTools,
	{id, workspace_id: workspaceId, address_key: addressKey}: Sender,
	steps: readonly SenderChange[],
): Promise<Made> {
	for (const step of steps) {
		await changeSender(trx, tools, workspaceId, addressKey, step);
	}
	return {id};
}

async function performTopic(scene: Scene, change: Of<'topic'>): Promise<Made> {
	switch (change.action) {
		case 'add':
			return await performIn(createTopic, scene, change.wanted);
		case 'change':
			return await performIn(renameTopic, scene, change.wanted);
		case 'remove':
			return await performIn(removeTopic, scene, {code: change.name});
	}
}

async function performWebhook(
	trx: Knex.Transaction,
	{tools, vault}: Pick<ApplyParts, 'tools' | 'vault'>,
	workspaceId: string,
	change: Of<'webhook'>,
): Promise<Made> {
	if (change.action === 'remove') {
		return (await removeEndpoint(trx, tools, workspaceId, change.known.id)) ? {} : undefined;
	}
	const {url, mode, events} = change.wanted;
	const {active} = change.fields;
	const added =
		change.action === 'add' ? await addEndpoint(trx, tools, vault, {workspaceId, mode, url, events}) : undefined;
	const id = change.action === 'add' ? added?.id : change.known.id;
	const isThere =
		id !== undefined &&
		(change.action === 'add' ||
			!change.fields.events ||
			(await changeEndpoint(trx, tools, {workspaceId, id, events}))) &&
		(!active || (await setEndpointActive(trx, tools, workspaceId, id, active.to === true)) !== undefined);
	return isThere ? {id, ...(added && {signing_secret: vault.open(added.id, added.secret)})} : undefined;
}

async function performKey(scene: Scene, change: Of<'key'>): Promise<Made> {
	if (change.action === 'remove') {
		for (const id of change.known.ids) {
			await performIn(revokeKey, scene, {id}).catch(undefinedIfRefused);
		}
		return {};
	}
	if (change.action === 'change') {
		const {scopes, rate_limit, expires_at} = change.wanted;
		const [id] = change.known.ids;
		return await performIn(changeKey, scene, {id, ...defined({scopes, rate_limit, expires_at})});
	}
	const {row, key} = await performIn(createKey, scene, change.wanted);
	return {id: row.id, key};
}
