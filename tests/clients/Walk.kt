// Walks the partner interface with the client that openapi-generator generates.
import java.io.File
import java.time.LocalDate
import java.time.ZoneOffset
import java.util.Base64
import kotlinx.serialization.KSerializer
import kotlinx.serialization.descriptors.SerialDescriptor
import kotlinx.serialization.encoding.Decoder
import kotlinx.serialization.encoding.Encoder
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonArray
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonObject
import kotlinx.serialization.json.jsonPrimitive
import okhttp3.Interceptor
import okhttp3.OkHttpClient
import okhttp3.Request
import partner.apis.CatalogueApi
import partner.apis.LoginApi
import partner.apis.PagesApi
import partner.apis.PlaybackApi
import partner.apis.ScheduleApi
import partner.apis.TelemetryApi
import partner.apis.UserApi
import partner.infrastructure.ApiClient
import partner.infrastructure.ClientError
import partner.infrastructure.ClientException
import partner.infrastructure.Serializer
import partner.infrastructure.ServerError
import partner.infrastructure.ServerException
import partner.infrastructure.Success
import partner.models.*

val demo = Json.parseToJsonElement(File(System.getenv("DEMO")).readText()).jsonObject
fun of(vararg names: String) = names.fold(demo as JsonElement) { at, name -> at.jsonObject.getValue(name) }.jsonPrimitive.content

/** An object without members is `Any` to the generator, and kotlinx.serialization knows no `Any`. */
object AnyJson : KSerializer<Any> {
    override val descriptor: SerialDescriptor = JsonElement.serializer().descriptor
    override fun deserialize(decoder: Decoder): Any = decoder.decodeSerializableValue(JsonElement.serializer())
    override fun serialize(encoder: Encoder, value: Any) = encoder.encodeSerializableValue(JsonElement.serializer(), value as JsonElement)
}

/** The generator makes no subclasses for the kinds of a session: these are read as JSON. */
class Sessions(base: String) : UserApi(base) {
    fun all(user: String) = (request<Unit, JsonArray>(sessionsRequestConfig(user)) as Success<*>).data as JsonArray
    fun one(user: String, session: String) = (request<Unit, JsonObject>(sessionRequestConfig(user, session)) as Success<*>).data as JsonObject
}

/** Notes the operations that are called, and names the media types of pages and guides as one that the client reads. */
class Coverage(file: String) : Interceptor {
    private val paths = Json.parseToJsonElement(File(file).readText()).jsonObject.getValue("paths").jsonObject
    // What applications do not call: players report by CMCD themselves, browsers load the front page, the lab's and scripts,
    // and the routes below `/api/lab` answer lab partners only.
    private val ours = paths.filterKeys { !Regex("/|/client/.*|(/api)?/lab(/.*)?|/api/tracker/v1/cmcd/.*").matches(it) }
    private val operations = ours.flatMap { (path, methods) -> methods.jsonObject.keys.map { it.uppercase() to path } }
    private val open = operations.toMutableSet()

    override fun intercept(chain: Interceptor.Chain): okhttp3.Response {
        val request = chain.request()
        val fits = operations.filter { (method, path) ->
            method == request.method() && Regex(path.replace(Regex("\\{\\w+}"), "[^/]+")).matches(request.url().encodedPath())
        }
        open.remove(fits.minByOrNull { (_, path) -> path.count { it == '{' } })
        val response = chain.proceed(request)
        val media = response.header("Content-Type") ?: return response
        if (listOf("application/json", "application/octet-stream").any(media::startsWith)) return response
        return response.newBuilder().header("Content-Type", "text/plain").build()
    }

    fun finish() {
        check(open.isEmpty()) { "not called: $open" }
        println("openapi-generator (Kotlin): all ${operations.size} operations called")
    }
}

fun refused(status: Int, code: String, call: () -> Any?): ErrorDescription {
    val (actual, body) = try {
        error("status 200 instead of $status $code: ${call()}")
    } catch (error: ClientException) {
        error.statusCode to (error.response as ClientError<*>).body
    } catch (error: ServerException) {
        error.statusCode to (error.response as ServerError<*>).body
    }
    check(actual == status) { "status $actual instead of $status $code: $body" }
    val error = Serializer.kotlinxSerializationJson.decodeFromString(ErrorResponse.serializer(), body.toString()).error
    check(error.code == code) { "$code in $body" }
    return error
}

const val PASSWORD = "goats and a meadow"
const val NEW_PASSWORD = "troll under the bridge"
fun now() = System.currentTimeMillis() / 1000

fun main() {
    val coverage = Coverage(System.getenv("PARTNER"))
    ApiClient.builder.addInterceptor(coverage).followRedirects(false)
    ApiClient.apiKey["Service-AccessToken"] = of("partnerToken")
    Serializer.kotlinxSerializationAdaptersConfiguration = { contextual(Any::class, AnyJson) }
    val base = of("baseUrl")
    walk(base, LoginApi(base), PagesApi(base), Sessions(base), PlaybackApi(base))
    coverage.finish()
}

fun walk(base: String, logins: LoginApi, pages: PagesApi, users: Sessions, playback: PlaybackApi) {
    val open = of("livestreams", "open")
    val blackout = of("livestreams", "blackout")
    val identity = "kotlin-${System.nanoTime()}@example.com"

    // The description itself, the schedule and the catalogue need no user.
    pages.openapi()
    pages.docs()
    check(CatalogueApi(base).livestreams(limit = 2).size == 2)
    CatalogueApi(base).assets()
    val schedule = ScheduleApi(base)
    val broadcast = schedule.scheduleLive(listOf(open, blackout)).getValue(open).current.id
    val today = LocalDate.now(ZoneOffset.UTC)
    schedule.scheduleDay(today, listOf(open))
    check(schedule.broadcasts(listOf(broadcast, of("catchup"))).getValue(of("catchup")).streamId == open)
    schedule.broadcast(broadcast)
    refused(404, "BROADCAST_NOT_FOUND") { schedule.broadcast("none") }
    schedule.livestreamLive(open)
    schedule.livestreamDay(open, today)
    check("<programme" in schedule.xmltv())
    check(schedule.m3u().startsWith("#EXTM3U"))
    check(schedule.m3uManifestWithHttpInfo("news", ScheduleApi.ManifestM3uManifest.indexPeriodM3u8, null).statusCode == 302)

    // An account.
    val new = SignUp(identity = identity, accessKey = PASSWORD, name = "Ann", locale = "sv")
    logins.signUp(new)
    refused(409, "EMAIL_IN_USE") { logins.signUp(new) }
    refused(401, "INVALID_CREDENTIALS") { logins.login(LogIn(identity = identity, accessKey = "wrong")) }
    fun logIn(password: String) = logins.login(LogIn(identity = identity, accessKey = password)).also { ApiClient.accessToken = it.token }
    val user = logIn(PASSWORD).userId
    users.readUser(user)
    for (email in listOf("new-$identity", identity)) users.changeEmail(user, EmailChange(email = email, password = PASSWORD))
    users.changePin(user, PinChange(newPinCode = "2580", password = PASSWORD))
    for (enabled in listOf(true, false)) {
        val change = UserChange(parentalControl = ParentalControlChange(enabled = enabled, limit = 15), pinCode = "2580")
        check(users.updateUser(user, change).parentalControl.enabled == enabled)
    }
    users.offers(user)

    // Playback: entitlement, preflight, license, heartbeat, 552.
    refused(403, "NOT_ENTITLED") { playback.entitlement(of("vod", "premium")) }
    refused(403, "NO_LIVE_RIGHTS") { playback.entitlement(blackout) }
    val offset = of("offsetOpen").toInt()
    val token = playback.entitlement(blackout, offset = offset).token
    fun prepare(device: String, asset: String = open, entitlement: String = playback.entitlement(asset).token) =
        playback.preflight(asset, Drm.clearkey, Protocol.dash, entitlement, "linux", "tv", "Model 5", device)
    val session = prepare("tv-1", blackout, token).headers.getValue("Service-Play-Session")
    val key = Base64.getUrlEncoder().withoutPadding().encodeToString("5ad1c0de000040008000000000000001".chunked(2).map { it.toInt(16).toByte() }.toByteArray())
    check(playback.licenseClearkey(token, session, ClearKeyRequest(kids = listOf(key))).propertyKeys.first().kid == key)
    val challenge = "challenge".toByteArray()
    refused(403, "DRM_MISMATCH") { playback.licenseWidevine(token, session, challenge) }
    refused(403, "DRM_MISMATCH") { playback.licensePlayready(token, session, challenge) }
    refused(403, "DRM_MISMATCH") { playback.licenseFairplay(token, session, challenge) }
    refused(403, "ENTITLEMENT_INVALID") { playback.licenseSigned("none", challenge) }
    refused(404, "CERTIFICATE_NOT_CONFIGURED") { playback.fairplayCertificate() }
    fun beat(at: Long) = playback.heartbeat(
        Drm.clearkey, Protocol.dash, token, "linux", "tv", "Model 5", "tv-1", session, "$at", "3500000", "1920", "1080",
    )
    check(beat(now() + offset).interval.toLong() == 10L)
    refused(552, "NO_LIVE_RIGHTS") { beat(now()) }
    refused(403, "PLAYLIST_TOKEN_INVALID") { playback.origin("none", "manifest.mpd") }
    val event = TelemetryEvent("playback_start", 1, System.currentTimeMillis(), context = TelemetryContext(deviceId = "tv-1", assetId = open))
    check(TelemetryApi(base).telemetry(listOf(event)).accepted.toLong() == 1L)

    // Limits: 409 names the running sessions, and the viewer ends one; its player gets 410.
    val full = refused(409, "STREAM_LIMIT_REACHED") { for (number in 2..9) prepare("tv-$number") }
    check(full.details!!.sessions!!.any { it.sessionId == session })
    users.one(user, session)
    users.endSession(user, session)
    check(refused(410, "SESSION_ENDED") { beat(now()) }.details!!.reason == ErrorDetails.Reason.revoked)
    val entitlement = playback.entitlement(open).token
    val older = playback.preflightV1(open, Drm.clearkey, Protocol.dash, entitlement, "linux", "tv", "Model 5", "tv-1")
    check(users.all(user).any { it.jsonObject["assetId"]?.jsonPrimitive?.content == open })
    playback.endPlayback(older.headers.getValue("Service-Play-Session"))
    users.devices(user)
    users.device(user, "tv-1")
    users.removeDevice(user, "tv-1")
    users.clearDevices(user)

    // The account again, to its end.
    users.exportUser(user)
    users.resetPin(user)
    users.changePassword(user, PasswordChange(currentPassword = PASSWORD, newPassword = NEW_PASSWORD))
    logins.sendReset(SendReset(email = identity))
    val linked = mailed(identity)
    pages.resetPage(linked)
    pages.resetForm(again = PASSWORD, password = PASSWORD, token = linked)
    logins.sendResetEmail(SendReset(email = identity))
    logins.reset(Reset(password = NEW_PASSWORD, token = mailed(identity)))
    logIn(NEW_PASSWORD)
    logins.logout()
    refused(401, "USER_TOKEN_INVALID") { users.readUser(user) }
    logIn(NEW_PASSWORD)
    users.endSessions(user)
    logIn(NEW_PASSWORD)
    users.deleteUser(user, Erase(password = NEW_PASSWORD))
}

/** The reset token of the newest mail. */
fun mailed(address: String): String {
    fun read(path: String): JsonElement {
        val request = Request.Builder().url("${of("opsUrl")}/admin/v1/mail$path").header("Authorization", "Bearer ${of("operatorToken")}").build()
        return Json.parseToJsonElement(OkHttpClient().newCall(request).execute().body()!!.string())
    }
    fun JsonElement.text(name: String) = jsonObject.getValue(name).jsonPrimitive.content
    val mail = read("").jsonArray.first { it.text("kind") == "reset" && it.text("to") == address }
    return Regex("pgr_[\\w-]+").find(read("/${mail.text("id")}").text("text"))!!.value
}
