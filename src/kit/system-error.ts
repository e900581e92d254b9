import {constants} from 'node:os';

/**
 * Returns the code of an error, such as `ENOSPC`, or an empty string if it has none. libuv does not know the code of an
 * exceeded disk quota and reports UNKNOWN, so this one is recognized by its number.
 */
export function systemCode(error: unknown): string {
	const {code, errno} = Object(error) as NodeJS.ErrnoException;
	return errno === -constants.errno.EDQUOT ? 'EDQUOT' : String(code ?? '');
}
