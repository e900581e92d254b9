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
	const wrong = `the daemon refused the message: ${code}`;
	throw new CliError(kindOf(response.status), wrong, message ?? response.statusText, details);
}

function kindOf(status: number): ExitKind {
	if (status === 429 || status >= 500) {
		return 'temporary';
	}
	return status === 401 || status === 403 ? 'unavailable' : 'data';
}
