import {CliError} from '../../cli/fault.ts';
import {addFieldOptions, readFieldOptions} from '../../cli/field-options.ts';
import {readSecret} from '../../cli/files.ts';
import {email} from '../../cli/options.ts';
import {type CliCommand, version} from '../../cli/program.ts';
import type {Session} from '../../cli/session.ts';
import {type Noun, shortTime} from '../../cli/terminal-text.ts';
import {findNamed, installationVerb} from '../../cli/verbs.ts';
import {sendTest} from '../../daemon/alerts.ts';
import {type AlertChannel, alertChannels, alertKinds} from '../../mail/alert.ts';
import {listFields} from '../fields.ts';
import type {InputOf} from '../operation.ts';
import {alertView, storedTime} from '../views.ts';
import {AddressGuard, toGuard} from '../webhooks/address-guard.ts';
import {
	addAlert,
	addVouchedAlert,
	checkTarget,
	muteAlert,
	removeAlert,
	type ShownAlert,
	testAlert,
	verifyAlert,
	withStatuses,
} from './rules.ts';
import {type Alert, type KnownCondition, listAlerts, listConditions} from './store.ts';

type NewAlertInput = InputOf<typeof addAlert.input>;
type AddOptions = {readonly [Way in AlertChannel]?: string} & {readonly verified?: boolean};

// There is one option for each way instead of the fields `way` and `target`.
const addFields = listFields(addAlert.input).filter(({name}) => name !== 'way' && name !== 'target');

export function alertCommands(alert: CliCommand): void {
	const addVerb = alert
		.verb('add', 'Add an alert: a message when a problem starts and when it ends')
		.sample('mailctl alert add --mail ops@shop.example')
		.option('--mail <address>', 'send email, bypassing the queue (MAILCTL_ALERT_SMTP_URL)', email('--mail'))
		.option('--webhook <url>', 'send a signed POST; - reads the URL from standard input')
		.option('--slack <url>', 'post to a Slack incoming webhook; - reads the URL from standard input')
		.option('--verified', 'treat the address of --mail as confirmed');
	addFieldOptions(addVerb, addFields, {from: email('--from')}).does(add);

	alert
		.verb('list', 'List alerts, newest first, and open incidents')
		.sample('mailctl alert list')
		.does(async session => {
			const workspaceId = (await session.chosenWorkspace())?.id ?? null;
			const reader = await session.reader();
			session.list(alerts, await withStatuses(reader, await listAlerts(reader, workspaceId)));
			const incidents = (await listConditions(reader, workspaceId)).filter(isOpen);
			if (!session.json && incidents.length > 0) {
				session.terminal.print(['', 'Open incidents:']);
				session.list(conditions, incidents);
			}
		});

	const byId = {by: 'id', find: (session: Session, text: string) => findNamed(session, 'alert', listAlerts, text)};
	installationVerb(alert, testAlert, {...byId, sample: 'mailctl alert test alr_06f…', shows: sendTestNow});
	installationVerb(alert, verifyAlert, {...byId, sample: 'mailctl alert verify alr_06f…', shows: alerts});
	installationVerb(alert, muteAlert, {...byId, sample: 'mailctl alert mute alr_06f… --for 2h', shows: alerts});

	installationVerb(alert, removeAlert, {
		...byId,
		sample: 'mailctl alert remove alr_06f… --yes',
		question: (_session, _text, {id, target}) => `Remove ${id}? ${target} will receive no more alerts.`,
		shows(session, {id, target}) {
			session.show({id, removed: true}, () => [`removed ${id} (${target})`]);
		},
	});
}

async function add(session: Session, {verified = false, ...options}: AddOptions): Promise<void> {
	const ways = alertChannels.filter(name => options[name] !== undefined);
	const [way] = ways;
	if (way === undefined || ways.length > 1) {
		throw new CliError('usage', 'an alert has exactly one target', 'use one of --mail, --webhook, --slack');
	}
	const target = await readSecret(options[way] ?? '');
	const guard = new AddressGuard(toGuard(session.settings()));
	checkTarget(url => guard.urlProblem(url), {way, target});
	const input = {...readFieldOptions<Pick<NewAlertInput, 'from' | 'on'>>(addFields, options), way, target};
	const {row, secret} = await session.performAnywhere(verified ? addVouchedAlert : addAlert, input);
	session.show({...(alerts.json(row) as object), ...(secret !== null && {secret})}, () => [
		`${row.id}: ${row.way} ${row.target}`,
		...(secret === null ? [] : [`Posts are signed with ${secret}, which is not shown again.`]),
		row.status === 'unconfirmed'
			? `${row.target} receives a link to confirm the address; to skip that: mailctl alert verify ${row.id}`
			: `Try it: mailctl alert test ${row.id}`,
	]);
}

async function sendTestNow(session: Session, alert: Alert): Promise<void> {
	const {id, way, target} = alert;
	const parts = {
		settings: session.settings(),
		version: version(),
		vault: await session.vault(),
		...session.tools,
		reader: await session.reader(),
	};
	const error = await sendTest(parts, alert);
	session.show({id, sent: error === null, error}, () => (error === null ? [`sent to ${target}`] : []));
	if (error !== null) {
		const fix = way === 'mail' ? 'see MAILCTL_ALERT_SMTP_URL' : 'check the URL and its response';
		throw new CliError('unavailable', `the message was not sent: ${error}`, fix);
	}
}

const isOpen = ({announced_at: announced, ended_at: ended}: KnownCondition) => announced !== null && ended === null;
const formatTime = (time: string) => `${shortTime(time)} UTC`;
const lastSent = ({error, sent_at: sentAt}: Alert) => (error ? 'failed' : sentAt ? formatTime(sentAt) : '–');

const alerts: Noun<ShownAlert> = {
	none: 'no alerts; create one with mailctl alert add',
	json: row => ({...alertView(row, storedTime), workspace_id: row.workspace_id}),
	fields: [
		{title: 'ID', name: 'id', cell: row => row.id, id: true},
		{title: 'WAY', name: 'way', cell: row => row.way},
		{title: 'TARGET', name: 'target', cell: row => row.target, cut: true},
		{
			title: 'LAST SENT',
			name: 'last sent',
			cell: row => (row.status === 'active' ? lastSent(row) : row.status),
		},
		{name: 'status', cell: row => row.status},
		{name: 'about', cell: row => row.kinds?.join(', ') ?? 'everything'},
		{name: 'workspace', cell: row => row.workspace_id ?? 'all'},
		{name: 'muted until', cell: row => (row.muted_until ? formatTime(row.muted_until) : undefined)},
		{name: 'last error', cell: row => row.error ?? undefined},
		{name: 'created', cell: row => formatTime(row.created_at)},
	],
};

const conditions: Noun<KnownCondition> = {
	none: '',
	json: row => row,
	fields: [
		{title: 'SINCE', cell: row => formatTime(row.began_at)},
		{title: 'KIND', cell: row => alertKinds[row.kind].title},
		{title: 'WHAT', cell: row => row.detail, cut: true},
	],
};
