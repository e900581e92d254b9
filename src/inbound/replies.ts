export const tooMany = '4.7.1 Too much mail from you for this address, try again in an hour';
export const shuttingDown = '4.3.2 Shutting down, try again later';
export const storeFails = '4.3.0 The mail cannot be stored now, try again later';

/** An error that smtp-server answers with this code and text. */
export function reply(responseCode: number, text: string): Error {
	return Object.assign(new Error(text), {responseCode});
}

/** Why a mail is not received now. */
export const refusals = {
	too_many: reply(450, tooMany),
	no_room: reply(452, '4.3.1 Too much mail at once, try again later'),
	too_large: null, // The library answers 552.
} as const;
