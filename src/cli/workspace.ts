import type {Command} from 'commander';
import {
	changeWorkspace,
	createWorkspace,
	pauseWorkspace,
	resumeWorkspace,
	type WorkspaceInput,
} from '../admin/workspaces.ts';
import {type Branding, readBranding} from '../mail/branding.ts';
import {isId} from '../mail/ids.ts';
import {findWorkspace, findWorkspaceByName, listWorkspaces, type Workspace} from '../store/workspaces.ts';
import {CliError} from './fault.ts';
import {
	colour,
	count,
	duration,
	email,
	label,
	locale,
	logoUrl,
	type none,
	orNull,
	timezone,
	unless,
} from './options.ts';
import {verb} from './program.ts';
import {action, type Session} from './session.ts';
import {fields, table} from './table.ts';
import {shortTime, duration as spell} from './text.ts';

type Options = {
	readonly name?: string;
	readonly locale?: string;
	readonly timezone?: string;
	readonly monthlyQuota?: number | typeof none;
	/** Milliseconds. */
	readonly queueLifetime?: number | typeof none;
	readonly trackOpens?: boolean;
	readonly trackClicks?: boolean;
	readonly brandName?: string | typeof none;
	readonly brandLogo?: string | typeof none;
	readonly brandColor?: string | typeof none;
	readonly brandSupport?: string | typeof none;
};

export function workspaceCommands(workspace: Command): void {
	settingOptions(verb(workspace, 'create', 'Make a workspace', 'mailctl workspace create --name acme'), true).action(
		action<Options & {name: string}, []>(async (session, options) => {
			const created = await session.write(trx =>
				createWorkspace(trx, session.tools, {...inputOf(options), name: options.name}),
			);
			showWorkspace(session, created ?? nameTaken(options.name));
		}),
	);

	verb(workspace, 'list', 'List workspaces, newest first', 'mailctl workspace list').action(
		action(async session => {
			const rows = await listWorkspaces(await session.reader());
			session.show(rows.map(view), () =>
				table<Workspace>(
					[
						{title: 'ID', cell: row => row.id},
						{title: 'NAME', cell: row => row.name, cut: true},
						{title: 'QUOTA', cell: row => row.monthly_quota, right: true},
						{title: 'PAUSED', cell: row => (row.paused_at ? (row.pause_reason ?? 'yes') : 'no'), cut: true},
					],
					rows,
					session.terminal.width,
				),
			);
		}),
	);

	verb(workspace, 'show [workspace]', 'Show a workspace', 'mailctl workspace show acme').action(
		action<object, [string | undefined]>(async (session, _options, key) => {
			showWorkspace(session, await chosen(session, key));
		}),
	);

	settingOptions(
		verb(
			workspace,
			'update [workspace]',
			'Change a workspace; the value none takes a setting back',
			'mailctl workspace update acme --monthly-quota 50000',
		),
		false,
	).action(
		action<Options, [string | undefined]>(async (session, options, key) => {
			const input = inputOf(options);
			if (Object.keys(input).length === 0) {
				throw new CliError('usage', 'nothing is to be changed', 'give at least one of the options of --help');
			}
			const {id} = await chosen(session, key);
			const changed = await session.write(trx => changeWorkspace(trx, session.tools, id, input));
			showWorkspace(session, changed ?? nameTaken(options.name));
		}),
	);

	verb(
		workspace,
		'pause [workspace]',
		'Refuse sends and hold what is queued',
		'mailctl workspace pause acme --reason "under review"',
	)
		.requiredOption('--reason <reason>', 'why, shown to whoever asks', label('--reason'))
		.action(
			action<{reason: string}, [string | undefined]>(async (session, {reason}, key) => {
				const found = await chosen(session, key);
				showWorkspace(session, await session.write(trx => pauseWorkspace(trx, session.tools, found, reason)));
			}),
		);

	verb(workspace, 'resume [workspace]', 'Send again, also what was held', 'mailctl workspace resume acme').action(
		action<object, [string | undefined]>(async (session, _options, key) => {
			const {id} = await chosen(session, key);
			showWorkspace(session, await session.write(trx => resumeWorkspace(trx, id)));
		}),
	);
}

function settingOptions(command: Command, creates: boolean): Command {
	const named = creates
		? command.requiredOption('--name <name>', 'its name, unique', label('--name'))
		: command.option('--name <name>', 'a new name, unique', label('--name'));
	named
		.option('--locale <tag>', 'language where neither send nor contact has one', unless(locale))
		.option('--timezone <zone>', 'zone of dates where neither send nor contact has one', unless(timezone))
		.option(
			'--monthly-quota <n>',
			'messages accepted per calendar month',
			unless(count('--monthly-quota', 0, 2_000_000_000)),
		)
		.option('--queue-lifetime <duration>', 'how long delivery is tried', unless(duration('--queue-lifetime')))
		.option('--track-opens', 'record opens')
		.option('--track-clicks', 'record clicks')
		.option('--brand-name <name>', 'what recipients know it by, for its hosted pages', unless(label('--brand-name')))
		.option('--brand-logo <url>', 'its logo there, an https URL', unless(logoUrl('--brand-logo')))
		.option('--brand-color <#rrggbb>', 'its accent color there', unless(colour('--brand-color')))
		.option('--brand-support <address>', 'where recipients may write to', unless(email('--brand-support')));
	return creates ? named : named.option('--no-track-opens', 'do not').option('--no-track-clicks', 'do not');
}

function inputOf(options: Options): Partial<WorkspaceInput> {
	const {name, locale, timezone, monthlyQuota, queueLifetime, trackOpens, trackClicks} = options;
	const lifetime = queueLifetime === undefined ? undefined : orNull(queueLifetime);
	const branding = brandingOf(options);
	return {
		...(name !== undefined && {name}),
		...(trackOpens !== undefined && {trackOpens}),
		...(trackClicks !== undefined && {trackClicks}),
		...(Object.keys(branding).length > 0 && {branding}),
		...(locale !== undefined && {locale: orNull(locale)}),
		...(timezone !== undefined && {timezone: orNull(timezone)}),
		...(monthlyQuota !== undefined && {monthlyQuota: orNull(monthlyQuota)}),
		...(lifetime !== undefined && {queueLifetime: lifetime === null ? null : Math.ceil(lifetime / 1000)}),
	};
}

function brandingOf({brandName, brandLogo, brandColor, brandSupport}: Options): Partial<Branding> {
	return {
		...(brandName !== undefined && {name: orNull(brandName)}),
		...(brandLogo !== undefined && {logoUrl: orNull(brandLogo)}),
		...(brandColor !== undefined && {accent: orNull(brandColor)}),
		...(brandSupport !== undefined && {supportEmail: orNull(brandSupport)}),
	};
}

function nameTaken(name: string | undefined): never {
	throw new CliError('data', `there is a workspace ${name} already`, 'choose another name');
}

/** By id or name as argument, else by `--workspace`, else the only one. */
async function chosen(session: Session, key: string | undefined): Promise<Workspace> {
	if (key === undefined) {
		return await session.workspace();
	}
	const reader = await session.reader();
	const found = isId('ws', key) ? await findWorkspace(reader, key) : await findWorkspaceByName(reader, key);
	if (!found) {
		throw new CliError('data', `there is no workspace ${key}`, 'see mailctl workspace list');
	}
	return found;
}

function view(row: Workspace) {
	const {name, logoUrl, accent, supportEmail} = readBranding(row.branding);
	return {
		id: row.id,
		name: row.name,
		locale: row.locale,
		timezone: row.timezone,
		monthly_quota: row.monthly_quota,
		queue_lifetime: row.queue_lifetime_s,
		track_opens: row.track_opens_at !== null,
		track_clicks: row.track_clicks_at !== null,
		paused: row.paused_at !== null,
		paused_at: row.paused_at,
		pause_reason: row.pause_reason,
		branding: {name, logo_url: logoUrl, accent, support_email: supportEmail},
		created_at: row.created_at,
	};
}

function showWorkspace(session: Session, row: Workspace): void {
	const brand = readBranding(row.branding);
	session.show(view(row), () =>
		fields([
			['id', row.id],
			['name', row.name],
			['locale', row.locale],
			['timezone', row.timezone],
			['monthly quota', row.monthly_quota],
			['queue lifetime', row.queue_lifetime_s === null ? null : spell(row.queue_lifetime_s * 1000)],
			['tracks', [row.track_opens_at && 'opens', row.track_clicks_at && 'clicks'].filter(Boolean).join(', ') || null],
			['paused', row.paused_at && `since ${shortTime(row.paused_at)} UTC: ${row.pause_reason}`],
			['brand name', brand.name],
			['brand logo', brand.logoUrl],
			['brand color', brand.accent],
			['support', brand.supportEmail],
			['created', `${shortTime(row.created_at)} UTC`],
		]),
	);
}
