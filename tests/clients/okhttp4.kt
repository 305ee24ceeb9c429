// The members of OkHttp 4 that a generated Kotlin client uses, on the OkHttp 3 of Debian.
package okhttp4

import java.io.File
import okhttp3.Headers
import okhttp3.HttpUrl
import okhttp3.MediaType
import okhttp3.RequestBody
import okhttp3.Response

fun String.toMediaTypeOrNull(): MediaType? = MediaType.parse(this)
fun String.toHttpUrlOrNull(): HttpUrl? = HttpUrl.parse(this)
fun String.toRequestBody(type: MediaType? = null): RequestBody = RequestBody.create(type, this)
fun ByteArray.toRequestBody(type: MediaType? = null): RequestBody = RequestBody.create(type, this)
fun File.asRequestBody(type: MediaType? = null): RequestBody = RequestBody.create(type, this)
fun Map<String, String>.toHeaders(): Headers = Headers.of(this)
val Response.body get() = body()
val Response.code get() = code()
val Response.message get() = message()
val Response.headers get() = headers()
