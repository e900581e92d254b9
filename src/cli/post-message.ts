import {CliError, type ExitKind} from './fault.ts';

export type Accepted = {readonly id: string; readonly status: string};

type Envelope = {
	readonly error?: {
		readonly code?: string;
		readonly message?: string;
		readonly violations?: ReadonlyArray<{readonly field: string; readonly message: string}>;
	};
};

/** One send by the API of the daemon at `url`. Throws CliError with what the API says. */
export async function postMessage(
	url: string,
	{
		key,
		body,
		idempotencyKey,
	}: {readonly key: string; readonly body: object; readonly idempotencyKey: string | undefined},
): Promise<Accepted> {
	let response: Response;
	try {
		response = await fetch(`${url}/v1/messages`, {
			method: 'POST',
			headers: {
				authorization: `Bearer ${key}`,
				'content-type': 'application/json',
				...(idempotencyKey !== undefined && {'idempotency-key': idempotencyKey}),
			},
			body: JSON.stringify(body),
		});
	} catch (error) {
		const cause = (error as Error).cause ?? error;
		throw new CliError(
			'unavailable',
			`the daemon does not answer at ${url} (${cause instanceof Error ? cause.message : cause})`,
			'start it with mailctl serve',
		);
	}
	const answer = (await response.json().catch(() => ({}))) as Accepted & Envelope;
	if (response.ok) {
		return {id: answer.id, status: answer.status};
	}
	const {code = String(response.status), message, violations = []} = answer.error ?? {};
	const details = violations.map(({field, message: fault}) => `${field}: ${fault}`);
	const reason = message === undefined ? '' : `: ${message.replace(/\.$/, '')}`;
	const wrong = `the message was refused with ${code}${reason}`;
	throw new CliError(kindOf(response.status), wrong, mends[code] ?? 'correct it and send again', details);
}

const mends: Readonly<Record<string, string>> = {
	sender_not_available: 'see mailctl sender list',
	template_has_no_version: 'save one with mailctl template push',
	sending_paused: 'see mailctl workspace show',
	unavailable: 'try again',
	rate_limited: 'try again later',
	quota_exceeded: 'wait for the next month or raise it with mailctl workspace update',
};

function kindOf(status: number): ExitKind {
	if (status === 429 || status >= 500) {
		return 'temporary';
	}
	return status === 401 || status === 403 ? 'unavailable' : 'data';
}
