import {maskPasswords} from '../../config/urls.ts';
import {settingsOf} from '../../declared/state.ts';
import {readBranding} from '../../mail/branding.ts';
import {type Figures, type ReputationLimits, spans} from '../../mail/reputation.ts';
import {findingsOf, leastAttempted, leastComplaints, leastDelivered, windowStarts} from '../../reputation/findings.ts';
import {percent, spanNames} from '../../reputation/words.ts';
import {type ReputationStatus, readStatuses} from '../../store/reputation.ts';
import type {Workspace} from '../../store/workspaces.ts';
import {CliError} from '../fault.ts';
import type {Session} from '../session.ts';
import {fields, type Noun, shortTime, duration as spell} from '../text.ts';

/** A workspace's figures, and the limits of the settings; null: no workspace is judged. */
type Reputation = {readonly status: ReputationStatus; readonly limits: ReputationLimits | null};

async function readReputation(session: Session, id: string): Promise<Reputation> {
	const starts = windowStarts(session.tools.clock.now());
	const [status] = await readStatuses(await session.reader(), {starts, ids: [id]});
	if (status === undefined) {
		throw new CliError('data', `the workspace ${id} is gone`, 'see mailctl workspace list');
	}
	return {status, limits: session.settings().reputation};
}

/** For scripts; shares are 0 to 1, null where there is nothing to divide by. */
function reputationView({status, limits}: Reputation) {
	const {since, warnedAt, windows} = status;
	return {
		state: stateOf(status, limits),
		since,
		warned_at: warnedAt,
		windows: Object.fromEntries(spans.map(span => [span, windowView(windows[span])])),
		limits: limits && {
			...limits,
			least: {attempted: leastAttempted, delivered: leastDelivered, complained: leastComplaints},
		},
	};
}

/** For people. */
function reputationFields({status, limits}: Reputation): Array<readonly [string, string | null]> {
	const {since, windows} = status;
	const state = stateOf(status, limits);
	return [
		['reputation', since === null ? state : `${state}, counted since ${shortTime(since)} UTC`],
		...spans.map(span => [`  ${spanNames[span]}`, figuresText(windows[span])] as const),
		...(limits === null
			? []
			: ([
					['  warns at', levelText(limits.warn)],
					['  pauses at', levelText(limits.pause)],
				] as const)),
	];
}

function stateOf({pausedAt, warnedAt, windows}: ReputationStatus, limits: ReputationLimits | null): string {
	if (pausedAt !== null) {
		return 'paused';
	}
	if (limits === null) {
		return 'not judged';
	}
	return warnedAt !== null || findingsOf(windows, limits).length > 0 ? 'warned' : 'fine';
}

function windowView({attempted, hard, delivered, complained}: Figures) {
	return {
		attempted,
		hard,
		bounce_rate: attempted === 0 ? null : hard / attempted,
		delivered,
		complained,
		complaint_rate: delivered === 0 ? null : complained / delivered,
	};
}

function figuresText({attempted, hard, delivered, complained}: Figures): string {
	if (attempted === 0 && delivered === 0) {
		return 'no mail';
	}
	return `${shareText(hard, attempted)} bounced, ${shareText(complained, delivered)} complained`;
}

function shareText(n: number, of: number): string {
	return of === 0 ? `${n} of 0` : `${n} of ${of} (${percent(n / of)})`;
}

function levelText({bounces, complaints}: {readonly bounces: number; readonly complaints: number}): string {
	return `${percent(bounces)} bounced, ${percent(complaints)} complained`;
}

/** With a mark at the one that commands use which name none. */
export const workspacesWith = (inUse: string | undefined): Noun<Workspace> => ({
	none: 'no workspaces, mailctl workspace create makes one',
	json: view,
	fields: [
		{title: 'ID', cell: row => row.id, id: true},
		{title: 'NAME', cell: row => row.name, cut: true},
		{title: 'IN USE', cell: row => (row.id === inUse ? 'yes' : '')},
		{title: 'QUOTA', cell: row => row.monthly_quota, right: true},
		{title: 'PAUSED', cell: row => (row.paused_at ? (row.pause_reason ?? 'yes') : 'no'), cut: true},
	],
});

function view(row: Workspace) {
	return {
		id: row.id,
		name: row.name,
		...settingsOf(row),
		paused: row.paused_at !== null,
		paused_at: row.paused_at,
		pause_reason: row.pause_reason,
		created_at: row.created_at,
	};
}

/** One workspace, with the figures that its reputation is judged by. */
export async function showWorkspace(session: Session, row: Workspace): Promise<void> {
	const brand = readBranding(row.branding);
	const reputation = await readReputation(session, row.id);
	const inUse = (await session.workspaceInUse())?.id;
	session.show({...view(row), reputation: reputationView(reputation)}, () =>
		fields(
			[
				['id', row.id],
				['name', row.name],
				...(row.id === inUse ? [['in use', 'by commands that name no workspace'] as const] : []),
				['locale', row.locale],
				['timezone', row.timezone],
				['monthly quota', row.monthly_quota],
				['queue lifetime', row.queue_lifetime_s === null ? null : spell(row.queue_lifetime_s * 1000)],
				['source pool', row.source_pool],
				['route', row.route && maskPasswords(row.route)],
				['tracks', [row.track_opens_at && 'opens', row.track_clicks_at && 'clicks'].filter(Boolean).join(', ') || null],
				['paused', row.paused_at && `since ${shortTime(row.paused_at)} UTC`],
				...(row.pause_reason === null ? [] : [['  reason', row.pause_reason] as const]),
				...(row.paused_at === null
					? []
					: [['  ends by', `mailctl workspace resume ${/^[\w.-]+$/.test(row.name) ? row.name : row.id}`] as const]),
				...reputationFields(reputation),
				['brand name', brand.name],
				['brand logo', brand.logoUrl],
				['brand color', brand.accent],
				['support', brand.supportEmail],
				['created', `${shortTime(row.created_at)} UTC`],
			],
			session.terminal.width,
		),
	);
}
