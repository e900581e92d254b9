import {type AlertEvent, type AlertMessage, alertKinds, type Condition} from '../../mail/alert.ts';

/** The text of a message: a subject, and lines of plain text. */
type AlertText = {readonly subject: string; readonly lines: readonly string[]};

const subjectPrefixes: Readonly<Record<Exclude<AlertEvent, 'test' | 'confirm'>, string>> = {
	began: 'Began',
	ended: 'Ended',
	digest: 'Still',
};

const maxDetailLength = 150;

const summarize = (conditions: readonly Condition[]): string => {
	const titles = new Set(conditions.map(({kind}) => alertKinds[kind].title));
	return `${conditions.length} conditions: ${[...titles].join(', ')}`;
};

/** Returns the text of a message. `alertId` is used in the command that mutes the alert. */
export function composeAlertText(
	{event, at, conditions, link}: AlertMessage,
	host: string,
	alertId: string,
): AlertText {
	if (event === 'test') {
		return {
			subject: `[mailctl ${host}] Test`,
			lines: [
				'This is a test: your alert works.',
				'You get one message when a problem begins and one when it clears.',
			],
		};
	}
	if (event === 'confirm') {
		return {
			subject: `[mailctl ${host}] Confirm this address for alerts`,
			lines: [
				`Someone asked mailctl at ${host} to send alerts to this address. To agree, open this link within a week:`,
				'',
				`    ${link}`,
				'',
				'If you did not expect this message, ignore it. You will not receive alerts unless you agree.',
			],
		};
	}
	const [first] = conditions;
	const summary = conditions.length === 1 ? first?.detail.slice(0, maxDetailLength) : summarize(conditions);
	return {
		subject: `[mailctl ${host}] ${subjectPrefixes[event]}: ${summary}`,
		lines: [
			...conditions.flatMap(({detail, fix, since}, index) => [
				...(index === 0 ? [] : ['']),
				detail,
				event === 'ended'
					? `    It began ${formatMinute(since)} and ended ${formatMinute(at)}.`
					: `    Since ${formatMinute(since)}. To do: ${fix}.`,
			]),
			...(event === 'ended' ? [] : ['', `To mute this for a while: mailctl alert mute ${alertId} --for 2h`]),
		],
	};
}

const formatMinute = (time: string): string => `${time.slice(0, 16).replace('T', ' ')} UTC`;

/** Returns the body of a webhook. Its fields never change, but more may be added. */
export function toWebhookBody({id, event, at, conditions}: AlertMessage, host: string): object {
	return {
		id,
		type: `alert.${event}`,
		at,
		host,
		conditions: conditions.map(({kind, subject, workspaceId, detail, fix, since}) => ({
			kind,
			subject,
			workspace: workspaceId,
			detail,
			fix,
			since,
		})),
	};
}
